/**
 * Checks the Vagrantfile, like `vagrant validate`: without a hypervisor, and without a trace in the home directory or
 * the checkout. Needs the Debian package vagrant.
 *
 *   bun integration/vm/vagrant.ts
 */
import { join } from "node:path"
import { mustRun, programEnv, TemporaryDirectory } from "../lab/mod.ts"

if (import.meta.main) {
  await using home = await TemporaryDirectory.create("cni-vagrant")
  const env = {
    ...programEnv,
    HOME: home.path,
    VAGRANT_HOME: home.join("home"),
    VAGRANT_DOTFILE_PATH: home.join("dotfile"),
    VAGRANT_CWD: join(import.meta.dir, "../.."),
  }
  const { stdout } = await mustRun(["vagrant", "validate", "--ignore-provider"], { env })
  console.log(stdout.trim())
}
