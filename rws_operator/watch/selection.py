"""Which objects of a kind are watched."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a kind's objects, chosen by the API server.

    Args:
        namespace: None for all namespaces, and for cluster-scoped kinds.
        label_selector: In the form of the API, e.g. ``app=web,tier in (a, b)``.
        field_selector: In the form of the API, e.g. ``metadata.name=x``.
    """

    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None

    @property
    def is_selective(self) -> bool:
        """Whether more than the namespace says which objects: only the API server can tell."""
        return bool(self.label_selector or self.field_selector)

    def params(self) -> dict[str, str]:
        """Its query parameters; the namespace is part of the path."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in selectors.items() if value}

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.params().items()]
        if self.namespace:
            parts.insert(0, f"namespace={self.namespace}")
        return f" ({', '.join(parts)})" if parts else ""
