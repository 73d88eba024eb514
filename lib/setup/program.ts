/** What every command knows of the program itself. */
export { serviceFlags } from "../config/keys.ts";
export { VERSION } from "../model/version.ts";
