import { expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, startDaemon, waitFor } from "../lab/mod.ts"
import { askName, nameServer } from "./busybox.ts"
import { Containerd } from "./containerd.ts"
import { nerdctlNetwork } from "./networks.ts"
import { Podman } from "./podman.ts"
import type { RuntimeHost } from "./runtime-host.ts"

/** A node with a published port. */
interface Node extends AsyncDisposable {
  readonly host: RuntimeHost
}

/** Starts a container "web" with port 80 at 8080 of the node, by each runtime. */
const nodes: Readonly<Record<string, () => Promise<Node>>> = {
  async podman() {
    const podman = await Podman.create()
    await podman.start("web", nameServer, "--publish", "8080:80")
    return podman
  },
  async containerd() {
    const containerd = await Containerd.create()
    await containerd.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
    return containerd
  },
  async "containerd with a network of nerdctl"() {
    const containerd = await Containerd.create(nerdctlNetwork)
    await containerd.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
    return containerd
  },
}

/** Asks the published port again and again, as `while curl …` does. */
class Questions {
  answered = 0
  readonly wrong: string[] = []
  #isStopped = false
  readonly #ended: Promise<void>

  constructor(host: RuntimeHost) {
    this.#ended = this.#ask(host)
  }

  async #ask(host: RuntimeHost): Promise<void> {
    const [file = "", ...args] = askName("127.0.0.1", 8080)
    while (!this.#isStopped) {
      const { stdout } = await host.tryExec(file, args)
      if (stdout.trim() === "web") this.answered++
      else if (stdout.trim() !== "") this.wrong.push(stdout)
    }
  }

  /** Waits until another question is answered, of those that are asked from now on. */
  async expectAnswer(): Promise<void> {
    const before = this.answered + 1 // one may be under way
    await waitFor(() => this.answered > before, "the published port to answer again")
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#ended
  }
}

for (const [runtime, create] of Object.entries(nodes)) {
  test(`${runtime}: a published port answers again after each flush of all rules, while the listener runs`, async () => {
    await using node = await create()
    const { host } = node
    const listen = [join(builtPlugins, "../cni"), "reconcile", "--listen", "--bin-dir", builtPlugins]
    const script = `exec ${listen.join(" ")} >/run/listener.log 2>&1`
    await startDaemon(host.commandLine(["sh", "-ec", script]))
    const questions = new Questions(host)
    await questions.expectAnswer()
    // Fewer than what the listener takes for a fight.
    for (const _ of ["once", "twice"]) {
      await host.exec("nft", ["flush", "ruleset"])
      await questions.expectAnswer()
      const { stdout } = await host.exec("nft", ["list", "ruleset"])
      expect(stdout).toContain("dnat")
    }
    await questions.stop()
    expect(questions.wrong).toEqual([])
  }, 180_000)
}
