import { type HostNamespace, TemporaryDirectory, waitFor } from "../lab/mod.ts"

/**
 * A table that belongs to a test process, just as firewalld owns its table (`flags owner`, nft(8)). Every process can
 * list the table, and the kernel refuses changes by other processes with EPERM. Disposal ends the ownership.
 */
export class OwnedTable implements AsyncDisposable {
  readonly #owner: Bun.Subprocess<"pipe", "ignore", "inherit">

  private constructor(owner: Bun.Subprocess<"pipe", "ignore", "inherit">) {
    this.#owner = owner
  }

  /** Takes over a table with its content. `table` is family and name, like "ip cni_masquerade". */
  static async take(host: HostNamespace, table: string): Promise<OwnedTable> {
    const list = () => host.exec("nft", ["list", "table", ...table.split(" ")])
    const { stdout } = await list()
    await host.exec("nft", ["delete", "table", ...table.split(" ")])
    const owner = Bun.spawn(host.commandLine(["nft", "-i"]), { stdin: "pipe", stdout: "ignore", stderr: "inherit" })
    const owned = new OwnedTable(owner)
    try {
      // `nft -i` reads line by line, so a table of several lines must be included from a file.
      await using directory = await TemporaryDirectory.create()
      await Bun.write(directory.join("table"), stdout.replace("{\n", "{\n\tflags owner\n"))
      owner.stdin.write(`include "${directory.join("table")}"\n`)
      owner.stdin.flush()
      await waitFor(async () => (await list()).stdout.includes("flags owner"), `table ${table} of another process`)
      return owned
    } catch (error) {
      await owned[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#owner.stdin.end()
    await this.#owner.exited
  }
}
