// viem over HTTP: a call, a batch, an error. Prints one line of JSON.
import { createPublicClient, http } from "viem";

const client = createPublicClient({ transport: http(process.argv[2], { batch: { wait: 20 }, retryCount: 0 }) });
const address = "0x0000000000000000000000000000000000000001";
const [chain, block, balance] = await Promise.all([
  client.getChainId(),
  client.getBlockNumber(),
  client.getBalance({ address }),
]);
const plain = createPublicClient({ transport: http(process.argv[2], { retryCount: 0 }) });
const error = await plain.call({ to: address, data: "0x01" }).catch((error) => error.walk((each) => each.code === 3));
const unknown = await plain.request({ method: "eth_unknown" }).catch((error) => error.code);
console.log(
  JSON.stringify({ chain, block: `${block}`, balance: `${balance}`, code: error.code, data: error.data, unknown }),
);
