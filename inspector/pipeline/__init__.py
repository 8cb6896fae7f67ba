"""From a request to reports: read or capture, compile, analyse."""
