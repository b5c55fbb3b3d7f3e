import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { FileDescriptor, Open, readAt } from "../libc/mod.ts"

export class PluginDirectory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "cni-invoke-test-"))

  script(name: string, body: string, mode = 0o755): string {
    const path = join(this.path, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `#!/bin/sh\n${body}\n`)
    chmodSync(path, mode)
    return path
  }

  /** Writes a plugin of the same build as this process. Returns its path. */
  ownPlugin(file: string, plugin: string): string {
    const path = join(this.path, file)
    writePluginOfBuild(path, plugin)
    return path
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** Writes a file that identifies itself as this plugin, with the same build as `program`. */
export function writePluginOfBuild(path: string, plugin: string, program?: string): void {
  writeFileSync(path, elf(buildNote(ownBuild(program)), nameNote(plugin)), { mode: 0o755 })
}

export function ownBuild(program = "/proc/self/exe"): Buffer {
  using file = FileDescriptor.open(program, Open.ReadOnly)
  const bytes = Buffer.alloc(4096)
  readAt(file.fd, bytes, 0)
  const id = bytes.indexOf("\x03\0\0\0GNU\0") + 8 // NT_GNU_BUILD_ID
  return bytes.subarray(id, id + bytes.readUInt32LE(id - 12))
}

export const buildNote = (id: Uint8Array) => note("GNU", 3, id)

export const nameNote = (name: string) => note("CNI", 1, Buffer.from(name.padEnd(16, "\0")))

/** Returns a note, elf(5): the lengths of owner and content, the type, and both texts. */
export function note(owner: string, type: number, content: Uint8Array): Buffer {
  const head = Buffer.alloc(12)
  for (const [at, word] of [owner.length + 1, content.length, type].entries()) head.writeUInt32LE(word, at * 4)
  return Buffer.concat([head, Buffer.from(`${owner}\0`), content])
}

/** Returns an ELF file with these notes: struct elf64_hdr and one struct elf64_phdr, <linux/elf.h>. */
export function elf(...notes: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(notes)
  const bytes = Buffer.concat([Buffer.alloc(120), content])
  bytes.write("\x7fELF\x02\x01")
  bytes.writeBigUInt64LE(64n, 32)
  bytes.writeUInt16LE(56, 54)
  bytes.writeUInt16LE(1, 56)
  bytes.writeUInt32LE(4, 64)
  bytes.writeBigUInt64LE(120n, 72)
  bytes.writeBigUInt64LE(BigInt(content.length), 96)
  return bytes
}
