// node run.mjs FOLDER PROGRAM WHEEL...: installs wheels in Pyodide, and runs a Python program there, with FOLDER as /work.
import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const [folder, program, ...wheels] = process.argv.slice(2);
let status = 1;
try {
  const pyodide = await loadPyodide();
  await pyodide.loadPackage(wheels, { messageCallback: () => {} });
  pyodide.FS.mkdir("/work");
  pyodide.mountNodeFS("/work", folder);
  pyodide.runPython(readFileSync(program, "utf8"));
  status = 0;
} catch (error) {
  // Not the error itself: Node would show the source of Pyodide, a line of a megabyte.
  console.error(error.message);
}
process.exit(status);
