// The peer BullMQ as its documentation shows it: `enqueue` adds delayed jobs by addBulk, `work` runs a Worker whose
// processor posts the callback (by undici, which was two to three times as fast as http.Agent). Flags are those of the asynq roles. enqueue prints what it did as JSON; work ends on SIGTERM.
import { Queue, Worker } from 'bullmq';
import { Pool } from 'undici';

const queueName = 'callbacks';
const opaque = 'x'.repeat(100);
const bulk = 1000; // jobs in one addBulk at most

const [mode, ...rest] = process.argv.slice(2);
const flags = { '-n': '0', '-goroutines': '1', '-rate': '0', '-delay-ms': '0', '-at': '0' };
for (let i = 0; i < rest.length; i += 2) flags[rest[i]] = rest[i + 1];
const number = (name) => Number(flags[name]);
const [host, port] = flags['-redis'].split(':');
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

function job(i) {
  const now = Date.now();
  const due = number('-at') || now + number('-delay-ms');
  const data = { uri: `${flags['-url']}/${i}`, opaque, due: new Date(due).toISOString() };
  return { name: 'callback', data, opts: { delay: Math.max(0, due - now), removeOnComplete: true, removeOnFail: true } };
}

async function enqueue() {
  const queue = new Queue(queueName, { connection });
  await queue.waitUntilReady();
  const n = number('-n');
  const rate = number('-rate');
  const begin = performance.now();
  let next = 0;
  // With a rate, what is due to be added each few milliseconds is added together, so the load stays open.
  const allowed = () => (rate ? Math.min(n, Math.floor(((performance.now() - begin) / 1000) * rate) + 1) : n);
  const add = async () => {
    while (next < n) {
      const end = Math.min(allowed(), next + bulk);
      if (end <= next) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      const jobs = [];
      while (next < end) jobs.push(job(next++));
      await queue.addBulk(jobs);
    }
  };
  await Promise.all(Array.from({ length: number('-goroutines') }, add));
  const seconds = (performance.now() - begin) / 1000;
  await queue.close();
  console.log(JSON.stringify({ done: n, seconds, failed: 0 }));
}

async function work() {
  const concurrency = number('-goroutines') || undefined; // BullMQ's own default is 1
  const pools = new Map();
  const post = async ({ data }) => {
    const url = new URL(data.uri);
    let pool = pools.get(url.origin);
    if (!pool) pools.set(url.origin, (pool = new Pool(url.origin, { connections: concurrency ?? 64, pipelining: 1 })));
    const { statusCode, body } = await pool.request({
      path: url.pathname, method: 'POST', headers: { 'x-chronos-due': data.due }, body: data.opaque,
    });
    await body.dump();
    if (statusCode !== 200) throw new Error(`answered ${statusCode}`);
  };
  const worker = new Worker(queueName, post, { connection, ...(concurrency && { concurrency }) });
  worker.on('error', (err) => console.error(err.message));
  process.on('SIGTERM', async () => {
    await worker.close(true);
    process.exit(0);
  });
}

await (mode === 'work' ? work() : enqueue());
