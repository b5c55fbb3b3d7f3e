/**
 * Creates two containers, a bridge and an internet in their own namespaces. Shows how the plugins work, and that they
 * leave nothing behind. Changes nothing on this machine. Needs root and a build (`npm run build`).
 *
 *   npm run demo
 */
import {
  askEcho,
  buildStation,
  diffSnapshots,
  EchoPeer,
  formatChanges,
  ping,
  takeSnapshot,
} from "../integration/lab/mod.ts"
import { judgeRemains } from "./demo/remains.ts"
import { runDemo } from "./demo/run.ts"
import { Runtime } from "./demo/runtime.ts"
import { hostAddress, internetAddress, makeSandbox } from "./demo/sandbox.ts"
import { brief, done, note, prove, title } from "./demo/show.ts"

async function demo(stack: AsyncDisposableStack): Promise<void> {
  await buildStation() // runs the plugins and measures their time
  const { host, internet, a, b } = await makeSandbox(stack)
  const peer = stack.use(await EchoPeer.start(internet))
  const runtime = stack.use(new Runtime(host))
  const before = await takeSnapshot(host)

  title("Two containers join the network of scripts/demo/10-demo.conflist")
  const first = await runtime.add(a)
  done("ADD container a", first.ms)
  note(brief(first.result))
  const second = await runtime.add(b)
  const [ofA, ofB] = [first, second].map(({ result }) => result.ips[0]?.address.split("/")[0] ?? "")
  if (!ofA || !ofB) throw new Error("ADD answered without an address")
  done(`ADD container b: ${ofB}`, second.ms)

  title("They reach each other, and the internet, which has no route back to them")
  prove(await ping(a, ofB), `a, ${ofA}, pings b, ${ofB}`)
  prove(await ping(a, internetAddress), `a pings the internet, ${internetAddress}`)
  const { from } = await askEcho(b, { transport: "tcp", address: internetAddress, port: peer.port })
  prove(from.address === hostAddress, `b connects to the internet, which sees ${from.address}, the host`)

  title("All is as ADD left it")
  done("CHECK container a", await runtime.call("CHECK", a))
  done("CHECK container b", await runtime.call("CHECK", b))

  title("They leave")
  done("DEL container a", await runtime.call("DEL", a))
  done("DEL container b", await runtime.call("DEL", b))
  const { stays, leaked } = judgeRemains(diffSnapshots(before, await takeSnapshot(host)))
  if (leaked.length > 0) throw new Error(`DEL has left something behind\n${formatChanges(leaked)}`)
  done("no link, address, route, rule or file of theirs is left in the host")
  note(`what stays for the next container, as documented: ${stays.join(", ")}`)
}

if (import.meta.main) process.exitCode = await runDemo("npm run demo", demo)
