import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

/** A directory for plugins of a test, removed when the scope ends. */
export class PluginDirectory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "cni-invoke-test-"))

  /** Writes a plugin as a shell script, executable unless `mode` says otherwise; returns its path. */
  script(name: string, body: string, mode = 0o755): string {
    const path = join(this.path, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `#!/bin/sh\n${body}\n`)
    chmodSync(path, mode)
    return path
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}
