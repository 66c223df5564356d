// Drives a browser for tests in Go: reads a command as a line of JSON from standard input, and answers with
// a line of JSON. The argument is the path of the browser. The
// browser gets a new profile.
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const executable = process.argv[2];
const browser = await chromium.launch({
  executablePath: executable,
  headless: true,
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
const timeout = 10000; // ms of a step

let context = null;
let page = null;
let problems = [];

function listen(to) {
  to.on('console', (message) => problems.push(`console ${message.type()}: ${message.text()}`));
  to.on('pageerror', (error) => problems.push(`error: ${error.message}`));
  to.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => {});
  });
}

const commands = {
  // A window of its own, without cookies.
  async open({ width = 1280, height = 800, dark = false, script = true }) {
    if (context) await context.close();
    context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', javaScriptEnabled: script, timezoneId: 'UTC', locale: 'en-GB' });
    context.setDefaultTimeout(timeout);
    page = await context.newPage();
    problems = [];
    listen(page);
    await page.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`));
    });
  },
  async goto({ url }) { return (await page.goto(url)).status(); },
  async fill({ selector, text }) { await page.fill(selector, text); },
  async click({ selector }) { await page.click(selector); },
  // A click alone doesn't wait for the page behind a link: a script could meet a page that has come in half.
  async follow({ selector }) { await Promise.all([page.waitForEvent('load'), page.click(selector)]); },
  async press({ key }) { await page.keyboard.press(key); },
  async type({ text }) { await page.keyboard.type(text); },
  async text({ selector }) { return await page.locator(selector).first().innerText(); },
  async count({ selector }) { return await page.locator(selector).count(); },
  async wait({ selector, ms = timeout }) { await page.waitForSelector(selector, { timeout: ms }); },
  async arrive({ pattern }) { await page.waitForURL(new RegExp(pattern)); },
  async idle() { await page.waitForLoadState('networkidle'); },
  async evaluate({ script }) { return await page.evaluate(script); },
  async shot({ path, full = true }) { await page.screenshot({ path, fullPage: full }); },
  async url() { return page.url(); },
  async resize({ width, height }) { await page.setViewportSize({ width, height }); },
  async problems() { const all = problems; problems = []; return all; },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...args } = JSON.parse(line);
  let answer;
  try {
    answer = { result: (await commands[name](args)) ?? null };
  } catch (error) {
    answer = { error: `${name}: ${error.message}` };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
await browser.close();
