"""Admission and conversion webhooks, and the certificate that the API server trusts them by.

A call of the API server goes `http` → an endpoint (`admission`, `conversion`) → the author's
function, run by `handlers`. `Webhooks` holds which function answers which path.
"""

from rws_operator.webhook.endpoint import Call, Endpoint
from rws_operator.webhook.errors import ReviewError
from rws_operator.webhook.registration import Registration, WebhookOptions
from rws_operator.webhook.request import AdmissionRequest
from rws_operator.webhook.user import UserInfo
from rws_operator.webhook.webhooks import Webhooks

__all__ = [
    "AdmissionRequest",
    "Call",
    "Endpoint",
    "Registration",
    "ReviewError",
    "UserInfo",
    "WebhookOptions",
    "Webhooks",
]
