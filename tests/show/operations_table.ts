/**
 * What every door promises, row by row: path, MCP tool, command, access and parameters with their defaults and bounds.
 * Users' scripts and hosts' configurations hold these names, so a change here is a change for them.
 *
 * `name kind`, `!` required, `=` default, `a..b` bounds (`>a` above it), `|` choices, `@` alias.
 */
export const TABLE = `
GET /api/stats                        | –                          | status                | read    |
GET /api/gpu                          | get_gpu_status             | gpu                   | read    |
GET /api/memory                       | get_host_memory_status     | memory                | read    |
GET /api/models                       | list_available_models      | models                | read    | source string=all all|ollama|comfyui
GET /api/gpu/fan                      | get_gpu_fan_status         | fan                   | read    |
GET /api/overclock                    | get_overclock_status       | overclock             | read    |
GET /api/governor                     | get_thermal_governor_status | governor            | read    |
GET /api/arbitration                  | get_arbitration            | arbitration           | read    |
GET /api/why                          | explain_decision           | why                   | read    | id integer; limit integer=20 1..1000
GET /api/plan                         | plan_workload              | plan                  | read    | model string; workflow string; needed_gb number >0
GET /api/footprints                   | get_footprints             | footprints            | read    |
GET /api/cache/report                 | get_page_cache_residency   | cache                 | read    | include_files boolean=true
GET /api/warm-plan                    | get_warm_plan              | warm plan             | read    | budget_gb number
GET /api/history                      | get_switch_history         | history               | read    | limit integer=20 1..1000; kind string; durable boolean=true; before integer
GET /api/analytics/profiles           | get_profile_performance    | analytics profiles    | read    | days number=7
GET /api/analytics/swaps              | get_swap_statistics        | analytics swaps       | read    | days number=7
GET /api/analytics/timeseries         | get_timeseries             | analytics timeseries  | read    | metric list!; from string; to string; points integer=600 2..5000
GET /api/analytics/models             | get_model_ranking          | analytics models      | read    | days number=30
GET /api/db                           | get_store_status           | db                    | read    |
GET /api/health                       | get_health                 | health                | read    |
GET /api/autotune                     | get_autotune_status        | autotune              | read    | limit integer=100
GET /api/runs                         | –                          | runs                  | read    |
GET /api/runs/{id}                    | get_run                    | runs get              | read    | id string!
GET /api/version                      | –                          | –                     | read    |
POST /api/switch-model                | switch_ollama_model        | switch                | operate | model string! @model_name; keep_alive string=30m; prompt string; wait boolean=true
POST /api/free-vram                   | soft_yield_ollama_vram     | yield                 | operate | model_name string @model; confirm boolean=true
POST /api/comfy-free                  | purge_comfyui_vram         | purge                 | operate | confirm boolean=true
POST /api/request-vram                | request_vram_for_ollama    | request-vram          | operate | needed_gb number! >0
POST /api/warm-all                    | prewarm_all_models_to_ram  | warm all              | operate | budget_gb number; force boolean=false; wait boolean=false
POST /api/warm-model                  | prewarm_single_model       | warm file             | operate | model_name string; filepath string; force boolean=false; blob_only boolean=true; wait boolean=true
POST /api/warm/cancel                 | –                          | warm cancel           | operate | id string
POST /api/cache/pin                   | –                          | cache pin             | operate | model_name string; filepath string; budget_gb number
POST /api/cache/unpin                 | –                          | cache unpin           | operate | model_name string; filepath string
POST /api/cache/pinned                | set_pinned_models          | –                     | operate | pinned boolean!; model_name string; filepath string; budget_gb number
POST /api/login/link                  | –                          | dashboard             | admin   | scopes list=read,operate,tune
POST /api/benchmark                   | run_model_switch_benchmark | benchmark             | operate | iterations integer=2 1..50; models list; wait boolean=true
POST /api/arbitration                 | set_arbitration_mode       | arbitration set       | operate | mode string auto|observe|paused; until string; keep list
POST /api/runs/{id}/cancel            | cancel_run                 | runs cancel           | operate | id string!
POST /api/gpu/fan                     | set_gpu_fan_speed          | fan set               | tune    | mode string! auto|manual; percent integer 30..100; confirm_within_s number
POST /api/overclock/apply             | apply_overclock_profile    | overclock apply       | tune    | profile string!; confirm_within_s number
POST /api/overclock/profile           | save_overclock_profile     | overclock save        | tune    | name string!; confirm_within_s number
DELETE /api/overclock/profile/{name}  | delete_overclock_profile   | overclock delete      | tune    | name string!
POST /api/overclock/lever             | set_gpu_lever              | overclock set         | tune    | lever string!; value string!; confirm_within_s number=30
POST /api/overclock/confirm           | confirm_change             | overclock confirm     | tune    |
POST /api/overclock/restore           | restore_stock_gpu_state    | restore               | tune    | scope string=all all|journal
POST /api/governor                    | set_thermal_governor       | governor set          | tune    | enabled boolean; reset boolean=false @clear
POST /api/autotune/sweep              | run_overclock_sweep        | autotune sweep        | tune    | knob string!; profile string=balanced; workload string=ollama; start number; stop number; step number; repeats integer=3 1..20; apply_best boolean=false; model string; wait boolean=false
POST /api/autotune/cancel             | –                          | autotune cancel       | tune    | id string
POST /api/runners/end                 | end_stuck_runner           | runner end            | admin   | pid integer!; starttime integer!
`;

/** Live feeds and what else stands at a path of its own. */
export const OTHER_PATHS = [
  "/api/stream",
  "/api/runs/{id}/events",
  "/api/export?what=events",
  "/metrics",
  "/openapi.json",
  "/docs",
] as const;

/** The 23 tool names that users already know. */
export const KNOWN_TOOLS = [
  "get_gpu_status",
  "get_host_memory_status",
  "list_available_models",
  "get_gpu_fan_status",
  "get_overclock_status",
  "get_thermal_governor_status",
  "get_page_cache_residency",
  "get_warm_plan",
  "get_switch_history",
  "get_profile_performance",
  "get_autotune_status",
  "switch_ollama_model",
  "soft_yield_ollama_vram",
  "purge_comfyui_vram",
  "request_vram_for_ollama",
  "prewarm_all_models_to_ram",
  "prewarm_single_model",
  "run_model_switch_benchmark",
  "set_gpu_fan_speed",
  "apply_overclock_profile",
  "restore_stock_gpu_state",
  "set_thermal_governor",
  "run_overclock_sweep",
] as const;
