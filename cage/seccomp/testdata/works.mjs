// What pi and its tools do with node, in one program. It says "ok" if all of it works.
import assert from "node:assert/strict";
import { execFileSync, fork } from "node:child_process";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync, watch, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { Worker } from "node:worker_threads";

if (process.send) {
	process.on("message", (m) => process.send(m + 1, () => process.disconnect()));
} else {
	await main();
	console.log("ok");
}

async function main() {
	const echo = "process.stdin.pipe(process.stdout)";
	assert.equal(execFileSync(process.execPath, ["-e", echo], { input: "spawn" }).toString(), "spawn");

	const child = fork(import.meta.filename);
	child.send(1);
	assert.deepEqual((await once(child, "message"))[0], 2);

	const worker = new Worker('require("worker_threads").parentPort.postMessage("worker")', { eval: true });
	assert.deepEqual(await once(worker, "message"), ["worker"]);

	const empty = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
	assert.ok((await WebAssembly.instantiate(empty)).instance);

	const server = createServer((_, reply) => reply.end("http")).listen(0, "127.0.0.1");
	await once(server, "listening");
	assert.equal(await (await fetch(`http://127.0.0.1:${server.address().port}`)).text(), "http");
	server.close();
	server.closeAllConnections();
	await lookup("localhost");

	mkdirSync("node/deep", { recursive: true });
	const watcher = watch("node");
	const seen = once(watcher, "change");
	writeFileSync("node/a", "file", { mode: 0o755 });
	await seen;
	watcher.close();
	chmodSync("node/a", 0o640);
	cpSync("node", "copy", { recursive: true });
	assert.equal(readFileSync("copy/a", "utf8"), "file");
	assert.equal(statSync("node/a").mode & 0o7777, 0o640);
}
