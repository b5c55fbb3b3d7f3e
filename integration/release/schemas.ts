import { join } from "node:path"
import type { ValidateFunction } from "ajv"
import Ajv from "ajv/dist/2020.js"
import { cached, run } from "../../scripts/engine.ts"

/** A Python package with JSON Schemas from Kubernetes' OpenAPI definitions. Its program is not used. */
const published = "kubernetes-validate==1.37.0"

/** Returns the directory with the schemas of a version that refuse unknown keys. */
async function schemasOf(version: string): Promise<string> {
  const directory = await cached(`schemas-${published.replace("==", "-")}`, async (into) => {
    const pip = ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", into]
    await run([...pip, published])
    const unpack =
      "import glob, sys, zipfile; zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0]).extractall(sys.argv[1])"
    await run(["python3", "-c", unpack, into])
  })
  return join(directory, "kubernetes_validate/kubernetes-json-schema", `v${version}-local-strict`)
}

export class Schemas {
  readonly #directory: string
  readonly #ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true })

  private constructor(directory: string) {
    this.#directory = directory
  }

  /** Downloads the schemas if this machine does not have them yet. */
  static async of(version: string): Promise<Schemas> {
    const schemas = new Schemas(await schemasOf(version))
    // Schemas refer to the definitions by an older and a newer name.
    const { $id: _, ...definitions } = (await schemas.#read("_definitions.json")) as { $id?: string }
    for (const name of ["_definitions.json", "/api/_definitions.json"]) schemas.#ajv.addSchema({ ...definitions }, name)
    return schemas
  }

  #read(file: string): Promise<object> {
    return Bun.file(join(this.#directory, file)).json()
  }

  /** Returns the errors of an object, one on each line, or "" if it is valid. */
  async faultsOf(object: { readonly apiVersion: string; readonly kind: string }): Promise<string[]> {
    const group = object.apiVersion
      .split("/")
      .map((word) => word.split(".")[0])
      .join("-")
    const file = `${object.kind}-${group}.json`.toLowerCase()
    const check = (this.#ajv.getSchema(file) ??
      this.#ajv.compile({ ...(await this.#read(file)), $id: file })) as ValidateFunction
    if (check(object)) return []
    return (check.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    )
  }
}
