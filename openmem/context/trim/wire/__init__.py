"""One module per wire format, behind `items.WireFormat`."""
