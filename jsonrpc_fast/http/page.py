"""A page on which people read and try the methods of a server: one file, which asks no other host for anything.

The page contains nothing of the server. It asks `rpc.discover` with the visitor's own authorization, so the endpoint
decides as for any other call what a visitor may see. Its Content-Security-Policy allows its own script and style, by
their checksums, and requests to its own origin. No number passes through a number of JavaScript: it is sent and shown
as it was typed and received.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from typing import Any, Final

__all__ = ["methods_page"]

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; --accent: #2563eb; --bad: #c22;
  font: 16px/1.5 system-ui, sans-serif }
@media (prefers-color-scheme: dark) { :root { --accent: #8ab4ff; --bad: #ff8a80 } }
* { box-sizing: border-box }
body { max-width: 56rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }
h1 { margin: 0; font-size: 1.6rem; overflow-wrap: anywhere }
p { margin: .4rem 0; white-space: pre-line }
code, pre, input, select, textarea { font: 14px/1.45 ui-monospace, monospace }
input, select, textarea { width: 100%; min-width: 0; padding: .4rem .5rem; border: 1px solid var(--line);
  border-radius: 6px }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px }
.tools { display: grid; grid-template-columns: 1fr 1fr; gap: .75rem; margin: 1rem 0; position: sticky; top: 0;
  padding: .5rem 0; background: Canvas }
details { border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; padding: 0 1rem; scroll-margin-top: 5rem }
details[open] { padding-bottom: 1rem }
summary { cursor: pointer; padding: .6rem 0; overflow-wrap: anywhere }
summary code { color: var(--accent); font-weight: bold; word-break: break-all }
summary small { display: block }
small, .type { opacity: .75 }
form > label { display: grid; grid-template-columns: 11rem 1fr; gap: .2rem .75rem; margin: .4rem 0; align-items: start }
label span { overflow-wrap: anywhere; padding-top: .35rem }
button { padding: .4rem 1.2rem; border: 0; border-radius: 6px; background: var(--accent); color: Canvas; font: inherit;
  cursor: pointer }
pre { background: var(--soft); padding: .6rem; border-radius: 6px; overflow: auto; max-height: 30rem; margin: .5rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere }
.bad { color: var(--bad) }
@media (max-width: 40rem) { .tools, form > label { grid-template-columns: 1fr } .tools { position: static } }
"""
_SCRIPT: Final = r"""
"use strict";
const at = id => document.getElementById(id);
const make = (tag, text, into, more) => {
  const made = Object.assign(document.createElement(tag), more);
  if (text != null) made.textContent = text;
  if (into) into.append(made);
  return made;
};
const given = at("document");  // a page in a file contains the document; a page of a server asks for it
const address = location.href.split("#")[0];
let found, lastId = 0;

// Indents a JSON text without reading its values: JavaScript would alter long numbers.
const indented = text => {
  let depth = 0, out = "";
  const line = () => "\n" + "  ".repeat(depth);
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+/g) || [];
  tokens.forEach((token, place) => {
    const next = tokens[place + 1];
    if (token === "{" || token === "[") {
      depth++;
      out += token + (next === "}" || next === "]" ? "" : line());
    } else if (token === "}" || token === "]") {
      depth--;
      out += (tokens[place - 1] === "{" || tokens[place - 1] === "[" ? "" : line()) + token;
    } else out += token === "," ? token + line() : token === ":" ? ": " : token;
  });
  return out;
};
const hasError = text => { try { return "error" in JSON.parse(text) } catch { return false } };
const isJson = text => { try { JSON.parse(text); return true } catch { return false } };
const quoted = text => "'" + text.replaceAll("'", "'\\''") + "'";

const post = async (method, params) => {
  const id = ++lastId;
  const body = `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}${params ? `,"params":${params}` : ""}}`;
  const headers = { "content-type": "application/json" };
  if (at("auth").value) headers.authorization = at("auth").value;
  const began = performance.now();
  const response = await fetch(location.pathname + location.search, { method: "POST", headers, body });
  const text = await response.text();
  return { body, status: response.status, ms: performance.now() - began, text };
};

const resolved = schema => {
  for (let left = 9; left && schema && schema.$ref; left--)
    schema = schema.$ref.split("/").slice(1).reduce((inner, name) => inner && inner[name], found);
  return schema && typeof schema === "object" ? schema : {};
};
const typeOf = (schema, depth = 3) => {
  if (schema && schema.$ref) return schema.$ref.split("/").pop();
  const own = resolved(schema);
  if ("const" in own) return JSON.stringify(own.const);
  if (own.enum) return own.enum.map(value => JSON.stringify(value)).join(" | ");
  const parts = own.anyOf || own.oneOf;
  if (parts) return depth ? parts.map(part => typeOf(part, depth - 1)).join(" | ") : "any";
  if (own.type === "array" && own.items && depth) return `array of ${typeOf(own.items, depth - 1)}`;
  return own.type ? [].concat(own.type).join(" | ") : "any";
};

// Returns a field for a param, and a function that returns what is in it as JSON, or "" if it is left out.
const fieldFor = (param, into) => {
  const schema = resolved(param.schema), hint = [typeOf(param.schema)];
  if ("default" in schema) hint.push(`default ${JSON.stringify(schema.default)}`);
  const options = schema.enum ? schema.enum.map(value => JSON.stringify(value))
    : schema.type === "boolean" ? ["true", "false"] : null;
  if (options) {
    const field = make("select", null, into, { name: param.name, required: param.required });
    make("option", hint.slice(1).join(), field, { value: "" });
    for (const option of options) make("option", option, field, { value: option });
    return () => field.value;
  }
  const isLarge = schema.type === "object" || schema.type === "array";
  const field = make(isLarge ? "textarea" : "input", null, into, {
    name: param.name, placeholder: hint.join(", "), autocomplete: "off", spellcheck: false, rows: 3,
    required: param.required && schema.type !== "string",
  });
  return () => {
    const text = field.value;
    if (schema.type === "string") return text || param.required ? JSON.stringify(text) : "";
    if (!text.trim()) return "";
    if (isJson(text)) return text.trim();
    if (!["object", "array", "integer", "number", "null"].includes(schema.type)) return JSON.stringify(text);
    throw new Error(`${param.name} is no JSON of the type ${schema.type}.`);
  };
};

const paramsOf = (method, values) => {
  if (method.paramStructure !== "by-position") {
    const members = values.filter(([, text]) => text).map(([name, text]) => `${JSON.stringify(name)}:${text}`);
    return members.length ? `{${members}}` : "";
  }
  const texts = values.map(([, text]) => text);
  while (texts.length && !texts[texts.length - 1]) texts.pop();
  const gap = texts.findIndex(text => !text);
  if (gap >= 0) throw new Error(`An array has no gaps: ${values[gap][0]} stands before a param that is given.`);
  return texts.length ? `[${texts}]` : "";
};

const show = method => {
  const box = make("details", null, at("methods"), { id: method.name });
  const head = make("summary", null, box), params = method.params || [];
  make("code", method.name, head);
  const list = params.map(param => `${param.name}${param.required ? "" : "?"}: ${typeOf(param.schema)}`);
  const result = method.result ? ` → ${typeOf(method.result.schema)}` : "";
  make("span", `(${list.join(", ")})${result}`, head, { className: "type" });
  if (method.summary) make("small", method.summary, head);
  if (method.deprecated) make("small", "deprecated", head, { className: "bad" });
  const more = (method.description || "").replace(method.summary || "", "").trim();
  if (more) make("p", more, box);
  const form = make("form", null, box, { autocomplete: "off" }), fields = [];
  for (const param of params) {
    const label = make("label", null, form);
    const name = make("span", param.name + (param.required ? " *" : ""), label);
    const described = param.description || resolved(param.schema).description;
    if (described) make("small", " " + described, name);
    fields.push([param.name, fieldFor(param, label)]);
  }
  make("button", given ? "Show the command" : "Call", form);
  if (method.errors) {
    const errors = method.errors.map(error => `${error.code} ${error.message}`).join("; ");
    make("p", `Errors: ${errors}`, box);
  }
  const out = make("div", null, box, { ariaLive: "polite" });
  form.onsubmit = async event => {
    event.preventDefault();
    out.replaceChildren();
    let text;
    try { text = paramsOf(method, fields.map(([name, read]) => [name, read()])) } catch (error) {
      make("p", error.message, out, { className: "bad" });
      return;
    }
    if (given) {
      const words = [quoted(method.name), ...text ? [quoted(text)] : []].join(" ");
      make("pre", given.dataset.before + words + given.dataset.after, out);
      return;
    }
    try {
      const answer = await post(method.name, text);
      const isError = answer.status >= 400 || hasError(answer.text);
      make("pre", indented(answer.text) || "(empty)", out, { className: isError ? "bad" : "" });
      make("small", `HTTP ${answer.status}, ${answer.ms.toFixed(1)} ms. In a shell:`, out);
      const auth = at("auth").value ? " -H 'Authorization: …'" : "";
      const data = `-H 'Content-Type: application/json'${auth} -d ${quoted(answer.body)}`;
      make("pre", `curl -sS ${quoted(address)} ${data}`, out);
    } catch (error) {
      make("p", `The server cannot be reached: ${error.message}`, out, { className: "bad" });
    }
  };
};

const begin = async () => {
  at("methods").replaceChildren();
  at("info").textContent = "";
  let failure = "";
  try {
    const answer = given ? null : await post("rpc.discover");
    const text = given ? given.textContent : answer.text;
    try { found = given ? JSON.parse(text) : JSON.parse(text).result } catch { found = null }
    if (!found) failure = `The server does not describe its methods (HTTP ${answer.status}): ${text}`;
  } catch (error) { failure = `The server cannot be reached: ${error.message}` }
  if (!found) { at("info").textContent = failure; return }
  const about = found.info || {};
  at("title").textContent = document.title = [about.title || "JSON-RPC", about.version || ""].join(" ").trim();
  const count = (found.methods || []).length;
  at("info").textContent = about.description || `${count} ${count === 1 ? "method" : "methods"}`;
  (found.methods || []).forEach(show);
  open();
};
const open = () => {
  const box = [...at("methods").children].find(box => location.hash === "#" + encodeURIComponent(box.id)
    || location.hash === "#" + box.id);
  if (box) { box.open = true; box.scrollIntoView() }
};
at("search").oninput = () => {
  const words = at("search").value.toLowerCase().split(/\s+/);
  for (const box of at("methods").children) {
    const text = box.textContent.toLowerCase();
    box.hidden = !words.every(word => text.includes(word));
  }
};
at("auth").onchange = begin;
addEventListener("hashchange", open);
addEventListener("keydown", event => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
    event.preventDefault();
    at("search").focus();
  }
});
begin();
"""
_BODY: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{policy}<title>JSON-RPC</title>
<link rel="icon" href="data:,">
<style>{style}</style>
<h1 id="title">JSON-RPC</h1>
<p id="info">Loading…</p>
<div class="tools">
<label>Search <input id="search" type="search" placeholder="method, param or word ( / )"></label>
<label{hidden}>Authorization <input id="auth" placeholder="Bearer …, never stored" autocomplete="off"></label>
</div>
<main id="methods"></main>
<noscript>This page needs JavaScript. The method rpc.discover describes the methods of this server.</noscript>
{document}<script>{script}</script>
</html>
"""


def _checksum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_POLICY: Final = (
    f"default-src 'none'; script-src {_checksum(_SCRIPT)}; style-src {_checksum(_STYLE)}; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
CONTENT_SECURITY_POLICY: Final = f"{_POLICY}; connect-src 'self'; frame-ancestors 'none'"
"""The header `Content-Security-Policy` of the page."""
PAGE: Final = _BODY.format(policy="", style=_STYLE, hidden="", document="", script=_SCRIPT).encode()
"""The page of a server, in UTF-8."""


def methods_page(document: dict[str, Any], before: str, after: str = "") -> str:
    """Return a page in one file that describes the methods of a document.

    Args:
        document: The OpenRPC document that `rpc.discover` returns.
        before: The command that calls a method, up to the name of the method.
        after: The rest of the command, after the params.

    Returns:
        The page, as HTML. It cannot call the server: its forms show the command that does.
    """
    # Escaped, so that no text of the document can end the element.
    text = json.dumps(document, ensure_ascii=False)
    data = re.sub(r"[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)
    command = f'data-before="{escape(before)}" data-after="{escape(after)}"'
    return _BODY.format(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n',
        style=_STYLE,
        hidden=" hidden",
        document=f'<script type="application/json" id="document" {command}>{data}</script>\n',
        script=_SCRIPT,
    )
