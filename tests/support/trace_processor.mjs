// Perfetto's trace processor, as WebAssembly: from standard input it takes a TraceProcessorRpcStream of requests, to standard
// output it writes one of replies (perfetto/trace_processor/trace_processor.proto).
//
// usage: node trace_processor.mjs DIRECTORY
//
// DIRECTORY has trace_processor.wasm, and engine_bundle.node.js: what Perfetto's page runs in a browser's worker to talk to
// it. Such a worker is made here, with just what that asks for.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const directory = process.argv[2];

class FetchesTheProcessor {
  open() {}
  send() {
    this.response = readFileSync(join(directory, "trace_processor.wasm"));
  }
}

// The build for 64-bit memory is another file. Whether that would work is tried with a module that has just a memory.
const kMemorySection = 5;
class ModuleOf32Bits extends WebAssembly.Module {
  constructor(bytes) {
    if (bytes[8] === kMemorySection) throw new WebAssembly.CompileError("there is none for 64-bit memory");
    super(bytes);
  }
}

const worker = {
  WebAssembly: { Instance: WebAssembly.Instance, Module: ModuleOf32Bits, RuntimeError: WebAssembly.RuntimeError },
  XMLHttpRequest: FetchesTheProcessor,
  WorkerGlobalScope: class {},
  location: { href: "file:///" },
  console: { log: console.error, warn: console.error, error: console.error },
  Uint8Array, TypeError, TextDecoder, TextEncoder, URL, performance, crypto, setTimeout,
};
worker.self = worker;
const script = join(directory, "engine_bundle.node.js");
vm.runInNewContext(readFileSync(script, "utf8"), worker, { filename: script });

const port = { postMessage: (reply) => process.stdout.write(reply) };
worker.onmessage({ data: port });
await new Promise(setImmediate); // until it has begun
for await (const requests of process.stdin) port.onmessage({ data: requests });
