import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { testStoreContract } from "../testing/store-contract.ts"
import { DirectoryStore } from "./directory.ts"

/** In memory where that is possible: every change is synced. */
const parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

testStoreContract("the directory store", async () => {
  const path = mkdtempSync(join(parent, "agent-directory-store-"))
  return {
    open: async () => new DirectoryStore(path),
    [Symbol.asyncDispose]: async () => rmSync(path, { recursive: true }),
  }
})
