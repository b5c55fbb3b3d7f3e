import { expect } from "bun:test"
import { join } from "node:path"
import { builtPlugins, startDaemon, waitFor } from "../lab/mod.ts"
import { askName } from "./busybox.ts"
import type { RuntimeHost } from "./runtime-host.ts"

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

  /** Waits until a new request is answered. */
  async expectAnswer(): Promise<void> {
    const before = this.answered + 1 // one may be under way
    await waitFor(() => this.answered > before, "the published port to answer again")
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#ended
  }
}

/**
 * Flushes all rules twice while the listener runs. Each time, port 8080 of a node, mapped to port 80 of the container
 * "web", answers again, and no other container does.
 */
export async function expectAnswersThroughFlushes(host: RuntimeHost): Promise<void> {
  const listen = [join(builtPlugins, "../cni"), "reconcile", "--listen", "--bin-dir", builtPlugins]
  await startDaemon(host.commandLine(["sh", "-ec", `exec ${listen.join(" ")} >/run/listener.log 2>&1`]))
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
}
