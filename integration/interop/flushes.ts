import { expect } from "bun:test"
import { join } from "node:path"
import { builtPlugins, startDaemon, waitFor } from "../lab/mod.ts"
import { askName } from "./busybox.ts"
import type { RuntimeHost } from "./runtime-host.ts"

/** A client that connects to the published port again and again, like `while curl …`. */
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

  async expectAnswer(): Promise<void> {
    const before = this.answered + 1 // a connection may be in progress
    await waitFor(() => this.answered > before, "the published port to answer again")
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#ended
  }
}

/**
 * Flushes all rules twice while the listener runs. Port 8080 of the node, mapped to port 80 of the container "web",
 * must answer again each time, and no other container may answer.
 */
export async function expectAnswersThroughFlushes(host: RuntimeHost): Promise<void> {
  const listen = [join(builtPlugins, "../cni"), "reconcile", "--listen", "--bin-dir", builtPlugins]
  await startDaemon(host.commandLine(["sh", "-ec", `exec ${listen.join(" ")} >/run/listener.log 2>&1`]))
  const questions = new Questions(host)
  await questions.expectAnswer()
  // Fewer flushes than the number after which the listener assumes a conflict with another program.
  for (const _ of ["once", "twice"]) {
    await host.exec("nft", ["flush", "ruleset"])
    await questions.expectAnswer()
    const { stdout } = await host.exec("nft", ["list", "ruleset"])
    expect(stdout).toContain("dnat")
  }
  await questions.stop()
  expect(questions.wrong).toEqual([])
}
