import { stat } from "node:fs/promises"
import { join } from "node:path"

/** An object in a file of `deploy/`. */
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly [other: string]: unknown
}

const root = join(import.meta.dir, "../../..")

/** The objects of a file, or of all files of a directory, as `kubectl apply -f` reads them. */
export async function readManifests(path: string): Promise<Manifest[]> {
  const isDirectory = (await stat(join(root, path))).isDirectory()
  const files = isDirectory ? [...new Bun.Glob("*.yaml").scanSync(join(root, path))].sort() : [""]
  const texts = await Promise.all(files.map((file) => Bun.file(join(root, path, file)).text()))
  return texts.flatMap((text) => Bun.YAML.parse(text) as Manifest | Manifest[])
}

/** Where objects of these kinds are created. */
const places: Readonly<Record<string, string>> = {
  CustomResourceDefinition: "customresourcedefinitions",
  ServiceAccount: "serviceaccounts",
  ConfigMap: "configmaps",
  ClusterRole: "clusterroles",
  ClusterRoleBinding: "clusterrolebindings",
  DaemonSet: "daemonsets",
  Pool: "pools",
  FixedAddress: "fixedaddresses",
}

/** The path that an object is created at. */
export function pathOf({ apiVersion, kind, metadata: { namespace } }: Manifest): string {
  const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const place = places[kind]
  if (place === undefined) throw new Error(`There is no place for objects of kind ${kind}`)
  return `${group}${namespace ? `/namespaces/${namespace}` : ""}/${place}`
}
