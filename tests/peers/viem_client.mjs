// A client of viem over WebSocket: calls, a subscription, and an error. Prints what it got as JSON.
import { createPublicClient, webSocket } from "viem";

const client = createPublicClient({ transport: webSocket(process.argv[2], { reconnect: false, keepAlive: false }) });
const chainId = await client.getChainId();
const blocks = await Promise.all(Array.from({ length: 50 }, (_, number) =>
  client.request({ method: "eth_getBalance", params: [`0x${number.toString(16).padStart(40, "0")}`, "latest"] })));
const transport = await client.transport.getRpcClient();
const heads = await new Promise((resolve, reject) => {
  const found = [];
  client.transport.subscribe({
    params: ["newHeads"],
    onData: (data) => found.push(data.result.number) === 3 && resolve(found),
    onError: reject,
  });
});
let code = 0;
try {
  await client.request({ method: "eth_unknown" }, { retryCount: 0 });
} catch (error) {
  code = error.code;
}
console.log(JSON.stringify({ chainId, balances: blocks.length, last: blocks[49], heads, code }));
transport.close();
process.exit(0);
