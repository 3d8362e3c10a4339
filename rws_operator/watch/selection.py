"""Which objects of a kind are watched, and which of those are kept."""

from dataclasses import dataclass

from rws_operator.resources.record import ObjectRecord


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a kind's objects, chosen by the API server but for `finalizer`.

    Args:
        namespace: None for all namespaces, and for cluster-scoped kinds.
        label_selector: In the form of the API, e.g. ``app=web,tier in (a, b)``.
        field_selector: In the form of the API, e.g. ``metadata.name=x``.
        finalizer: Only objects that are being deleted and wait for this finalizer. All are
            watched, for no API server chooses by that, and the others are not kept.
    """

    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    finalizer: str | None = None

    @property
    def is_selective(self) -> bool:
        """Whether more than the namespace says which objects: only the watch can tell."""
        return bool(self.label_selector or self.field_selector or self.finalizer)

    def keeps(self, record: ObjectRecord) -> bool:
        """Whether an object that the API server sent is one of them."""
        return self.finalizer is None or (record.deleting and self.finalizer in record.finalizers)

    def params(self) -> dict[str, str]:
        """Its query parameters; the namespace is part of the path."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in selectors.items() if value}

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.params().items()]
        if self.namespace:
            parts.insert(0, f"namespace={self.namespace}")
        if self.finalizer:
            parts.append(f"being deleted, finalizer={self.finalizer}")
        return f" ({', '.join(parts)})" if parts else ""
