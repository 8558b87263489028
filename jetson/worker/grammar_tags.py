"""How Qwen's models mark a call of a tool."""

TOOL_CALL = ("<tool_call>", "</tool_call>")
