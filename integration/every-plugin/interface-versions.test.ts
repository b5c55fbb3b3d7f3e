import { expect } from "bun:test"
import { Attachment, fail, hostFor, interfacePlugin, interfacePlugins, testPlugin } from "../lab/mod.ts"

for (const name of interfacePlugins()) {
  const plugin = interfacePlugin(name)

  for (const cniVersion of ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]) {
    testPlugin(name, `${name}: ADD, CHECK and DEL speak version ${cniVersion}`, async () => {
      await using host = await hostFor(name)
      const pod = await host.addContainer()
      const attachment = new Attachment(host, pod, plugin.network({ cniVersion, ...plugin.dualStack }))
      const result = await attachment.add()
      expect(result.cniVersion).toBe(cniVersion)
      expect(result.ips.map(({ address }) => address)).toEqual(
        plugin.pairs.map(({ first, prefix }) => `${first}/${prefix}`),
      )
      expect(result.ips.map(({ version }) => version)).toEqual(cniVersion < "1" ? ["4", "6"] : [undefined, undefined])
      expect(result.dns).toEqual(cniVersion < "1" ? {} : undefined)
      const checked = attachment.check(result)
      if (cniVersion >= "0.4.0") expect(await checked).toMatchObject({ exitCode: 0, stdout: "" })
      else expect((await fail(checked)).msg).toBe("config version does not allow CHECK")
      await attachment.del()
    })
  }

  for (const { said, cniVersion } of [
    { said: "0.1.0", cniVersion: "0.1.0" },
    { said: "0.2.0", cniVersion: "0.2.0" },
    { said: "0.1.0 where none is said", cniVersion: undefined },
  ]) {
    testPlugin(name, `${name}: ADD and DEL speak version ${said}, with ip4 instead of lists`, async () => {
      await using host = await hostFor(name)
      const pod = await host.addContainer()
      const { keys, answered } = plugin.defaultRoute
      const attachment = new Attachment(host, pod, plugin.network({ cniVersion, ...keys }))
      const result: unknown = await attachment.add()
      const [ipv4] = plugin.pairs
      expect(result).toEqual({
        cniVersion: cniVersion ?? "0.1.0",
        ip4: { ip: `${ipv4.first}/${ipv4.prefix}`, gateway: plugin.gateway, routes: [answered] },
        dns: {},
      })
      await attachment.del()
    })
  }
}
