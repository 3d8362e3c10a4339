"""An operator with everything, and the documents of its installation, in every form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator import CustomResource, Model, Operator, kinds

if TYPE_CHECKING:
    from rws_operator import AdmissionRequest, Context


class ShelfSpec(Model):
    """What it holds."""

    books: int = 1


def operator(name: str, lease_namespace: str | None = None) -> Operator:
    """An operator with an election, a kind of two versions, and both kinds of webhook."""

    class Shelf(CustomResource, group=f"{name}.test.example.com", version="v1"):
        """A text that Helm would take for a template: {{ .Values.secret }}."""

        spec: ShelfSpec = ShelfSpec()

    class ShelfV1Beta1(
        CustomResource,
        group=f"{name}.test.example.com",
        kind="Shelf",
        version="v1beta1",
        storage=False,
    ):
        """The older one."""

        spec: ShelfSpec = ShelfSpec()

    made = Operator(name)
    made.leader_election(lease_namespace)
    shelves = made.controller(Shelf, versions=[ShelfV1Beta1], owns=[kinds.ConfigMap])

    @shelves.reconcile
    async def reconcile(shelf: Shelf, ctx: Context) -> None:
        """Be content."""

    @made.convert(ShelfV1Beta1, Shelf)
    def upgrade(old: ShelfV1Beta1) -> Shelf:
        return Shelf(metadata=old.metadata, spec=old.spec)

    @made.convert(Shelf, ShelfV1Beta1)
    def downgrade(new: Shelf) -> ShelfV1Beta1:
        return ShelfV1Beta1(metadata=new.metadata, spec=new.spec)

    @made.validate(Shelf)
    async def check(request: AdmissionRequest[Shelf]) -> None:
        """Have no objection."""

    @made.mutate(kinds.Pod, namespace_selector={"matchLabels": {"shelves": "yes"}})
    async def default(request: AdmissionRequest[dict[str, Any]]) -> None:
        """Change nothing; the operator's own namespace is left out."""

    return made


def by_kind(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The one document of a kind."""
    (found,) = [each for each in documents if each["kind"] == kind]
    return found
