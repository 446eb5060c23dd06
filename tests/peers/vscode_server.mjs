// A vscode-jsonrpc connection on stdin and stdout, the base of a language server.

import { createMessageConnection, ResponseError, StreamMessageReader, StreamMessageWriter } from "vscode-jsonrpc/node";
import { CancellationTokenSource, ErrorCodes, ProgressType } from "vscode-jsonrpc/node";

const cancelled = -32800;
const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);

connection.onRequest("add", (a, b) => a + b);
connection.onRequest("length", (params) => params.text.length);
connection.onRequest("refuse", () => new ResponseError(-32001, "not now", { wait: 5 }));
connection.onRequest("crash", () => {
  throw new Error("crashed");
});

// Ends only when it is cancelled.
connection.onRequest("hang", (token) =>
  new Promise((resolve) => {
    token.onCancellationRequested(() => {
      connection.sendNotification("cancelled");
      resolve(new ResponseError(cancelled, "cancelled"));
    });
  }),
);

// Calls back, and returns the result.
connection.onRequest("ask", async (method, params) => {
  try {
    return { result: await connection.sendRequest(method, ...params) };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
});

// Calls back, and cancels that call after a moment.
connection.onRequest("ask and cancel", async (method) => {
  const source = new CancellationTokenSource();
  setTimeout(() => source.cancel(), 50);
  try {
    return { result: await connection.sendRequest(method, source.token) };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
});

connection.onRequest("work", async (params) => {
  for (const percentage of [0, 50, 100]) {
    await connection.sendProgress(new ProgressType(), params.workDoneToken, { percentage });
  }
  return "done";
});

connection.onNotification("note", (...params) => connection.sendNotification("noted", ...params));
connection.onClose(() => process.exit(0));
connection.listen();
