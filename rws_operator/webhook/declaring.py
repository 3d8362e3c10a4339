"""What an author writes of webhooks: the decorators and the certificate of an Operator.

What is declared goes into a `Declaration`, from which the documents and the service are made.
`Operator` inherits these, so that an author finds all on one object. Invariant: what can't be used
is refused where it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from rws_operator.resources import CustomResource
from rws_operator.webhook.certificate_terms import YEAR_SECONDS
from rws_operator.webhook.declaration import STAGE_SECONDS, Declaration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.resources import Kind
    from rws_operator.webhook.decorators import (
        ConvertDecorator,
        MutateDecorator,
        ValidateDecorator,
    )
    from rws_operator.webhook.registration import WebhookOptions
    from rws_operator.webhook.webhooks import Webhooks

_C = TypeVar("_C", bound=CustomResource)
_S = TypeVar("_S", bound=CustomResource)


class DeclaresWebhooks:
    """The part of an Operator through which its webhooks are declared.

    Args:
        declaration: What it fills.
    """

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration

    @overload
    def validate(
        self, kind: type[_C], **options: Unpack[WebhookOptions]
    ) -> ValidateDecorator[_C]: ...

    @overload
    def validate(
        self, kind: Kind, **options: Unpack[WebhookOptions]
    ) -> ValidateDecorator[dict[str, Any]]: ...

    def validate(self, kind: Any, **options: Unpack[WebhookOptions]) -> ValidateDecorator[Any]:
        """Decorate the function that reviews requests for a kind before they are carried out.

        It is called with an `AdmissionRequest` and raises `Denied` to refuse. What the class's
        own validators refuse is denied before it is called. It is not asked about steps of a
        deletion: updates of an object with a deletionTimestamp that change finalizers alone.

        Args:
            kind: A CustomResource class, whose CRD is printed too, or a Kind.
            **options: How it is called:
                path (text): Where it answers; default e.g. ``/validate/backups.example.com/v1``.
                name (text): Its name in the configuration, at least three DNS labels; default
                e.g. ``validate.backups.example.com``.
                operations (list of texts): Default ``("CREATE", "UPDATE")``; also ``DELETE``,
                ``CONNECT``.
                subresources (list of texts): To be called for these in place of the object
                itself, which is ``""``; default ``("",)``.
                failure_policy (text): Whether a request fails where this webhook can't answer,
                ``Fail`` (default) or goes on, ``Ignore``.
                timeout_seconds (int): How long the API server waits, 1 to 30; default 10.
                side_effects (text): ``None`` (default), or ``NoneOnDryRun`` where the function
                writes elsewhere unless ``request.dry_run``.
                match_policy (text): ``Equivalent`` (default) reviews requests in other versions of
                the kind as well, ``Exact`` does not.
                match_conditions (dict): CEL expressions by name, which must all be true; default
                none.
                namespace_selector (dict): Label selector of the objects' namespaces, as on the
                wire; default all.
                object_selector (dict): Label selector of the objects, as on the wire; default
                all.
                exempt_own_namespace (bool): Leave out the operator's own namespace; default True
                for a Kind that has a namespace or is one, False for a class.

        Raises:
            ConfigurationError: An option can't be used, path or name are taken, or it runs already.
        """
        return self._declaration.validate(kind, options)

    @overload
    def mutate(self, kind: type[_C], **options: Unpack[WebhookOptions]) -> MutateDecorator[_C]: ...

    @overload
    def mutate(
        self, kind: Kind, **options: Unpack[WebhookOptions]
    ) -> MutateDecorator[dict[str, Any]]: ...

    def mutate(self, kind: Any, **options: Unpack[WebhookOptions]) -> MutateDecorator[Any]:
        """Decorate the function that changes objects of a kind before they are stored.

        It is called with an `AdmissionRequest` and returns the object as it ought to be, or None
        if it changed ``request.object`` in place. Only the differences are sent. It is not asked
        about steps of a deletion, see `validate`.

        Args:
            kind: A CustomResource class, whose CRD is printed too, or a Kind.
            **options: How it is called:
                path (text): Where it answers; default e.g. ``/mutate/backups.example.com/v1``.
                name (text): Its name in the configuration, at least three DNS labels; default
                e.g. ``mutate.backups.example.com``.
                operations (list of texts): Default ``("CREATE", "UPDATE")``; also ``DELETE``,
                ``CONNECT``.
                subresources (list of texts): To be called for these in place of the object
                itself, which is ``""``; default ``("",)``.
                failure_policy (text): Whether a request fails where this webhook can't answer,
                ``Fail`` (default) or goes on, ``Ignore``.
                timeout_seconds (int): How long the API server waits, 1 to 30; default 10.
                side_effects (text): ``None`` (default), or ``NoneOnDryRun`` where the function
                writes elsewhere unless ``request.dry_run``.
                match_policy (text): ``Equivalent`` (default) reviews requests in other versions of
                the kind as well, ``Exact`` does not.
                match_conditions (dict): CEL expressions by name, which must all be true; default
                none.
                namespace_selector (dict): Label selector of the objects' namespaces, as on the
                wire; default all.
                object_selector (dict): Label selector of the objects, as on the wire; default
                all.
                reinvocation (text): ``IfNeeded`` lets the API server call again after later
                webhooks changed the object; default ``Never``.
                exempt_own_namespace (bool): Leave out the operator's own namespace; default True
                for a Kind that has a namespace or is one, False for a class.

        Raises:
            ConfigurationError: An option can't be used, path or name are taken, or it runs already.
        """
        return self._declaration.mutate(kind, options)

    def convert(self, source: type[_C], target: type[_S]) -> ConvertDecorator[_C, _S]:
        """Decorate the function that makes one version of a kind from another.

        One of the two is the storage version, so a kind of n versions needs 2 (n - 1) functions.

        Never tighten the constraint of a stored field in a class that converts: one object stored
        before then fails every list in another version, and with it informers, garbage collection
        and the end of its namespace. Refuse new values in a validating webhook instead.

        A value that stays at its path keeps the text it was written in. One that moves is written
        as its type writes it: a datetime to the microsecond and with ``Z`` for UTC, a number as
        int or float, an item without the nulls that are its defaults; a write at the other
        version stores that. Where the exact text matters, let the field be a ``str``.

        Keys that a class does not know (a newer schema's) stay where they were. In a list they
        follow their item: it is known by its ``name``, else by its content, else by its place.
        So where items are moved, added or left out, keep their names; what belongs to an item
        that is not known again is gone.

        The functions don't see managedFields, which stay as they are.

        Args:
            source: The class of the version it gets.
            target: The class of the version it returns.

        Raises:
            ConfigurationError: They are no pair of versions, or have a function already.
        """
        return self._declaration.convert(source, target)

    @property
    def webhooks(self) -> Webhooks:
        """The webhooks by path: what the decorators are made of, and raw conversion."""
        return self._declaration.webhooks

    def certificate(
        self,
        secret: str | None = None,
        service: str | None = None,
        *,
        names: Sequence[str] = (),
        lifetime_seconds: float = YEAR_SECONDS,
        stage_seconds: float = STAGE_SECONDS,
    ) -> None:
        """Say how the webhooks' certificate is kept, where the defaults don't fit.

        Args:
            secret: The Secret that the replicas share it by, in the pod's namespace.
            service: The Service that the API server calls; the printed one by default.
            names: Further DNS names and IP addresses, e.g. that of ``--webhook-url``.
            lifetime_seconds: How long one is valid; it is renewed after two thirds.
            stage_seconds: How long each stage of a renewal lasts at least.

        Raises:
            ConfigurationError: A name or a duration can't be used.
        """
        self._declaration.set_certificate(
            secret=secret,
            service=service,
            names=names,
            lifetime_seconds=lifetime_seconds,
            stage_seconds=stage_seconds,
        )
