/* The handlers of the routes, one file each. */
#ifndef ATTND_SERVER_ENDPOINTS_H
#define ATTND_SERVER_ENDPOINTS_H

#include "server/routes.h"

route_handler forward_handle;      /* forward.c */
route_handler importance_handle;   /* importance.c */
route_handler stats_handle;        /* stats.c */
route_handler similarity_handle;   /* similarity.c */
route_handler links_handle;        /* links.c */
route_handler rollout_handle;      /* rollout.c */
route_handler weights_list_handle; /* weights.c */
route_handler weights_get_handle;  /* weights.c */
route_handler healthz_handle;      /* health.c */
route_handler readyz_handle;       /* health.c */
route_handler openapi_handle;      /* openapi.c */
route_handler metrics_handle;      /* metrics.c */

/* The Open Inference Protocol, where a weight set is a model. */
route_handler oip_live_handle;           /* oip_health.c */
route_handler oip_ready_handle;          /* oip_health.c */
route_handler oip_model_ready_handle;    /* oip_health.c */
route_handler oip_server_handle;         /* oip_metadata.c */
route_handler oip_models_handle;         /* oip_metadata.c */
route_handler oip_model_handle;          /* oip_metadata.c */
route_handler oip_config_handle;         /* oip_metadata.c */
route_handler oip_index_handle;          /* oip_repository.c */
route_handler oip_statistics_handle;     /* oip_statistics.c */
route_handler oip_all_statistics_handle; /* oip_statistics.c */
route_handler oip_infer_handle;          /* oip_infer.c */
route_acceptor oip_infer_accept;         /* oip_infer.c */

/* Over traffic, and for who administers the server. */
route_handler live_similarity_handle; /* live.c */
route_handler live_stats_handle;      /* live.c */
route_handler live_drift_handle;      /* live.c */
route_handler live_state_handle;      /* live.c */
route_handler live_merge_handle;      /* live_admin.c */
route_handler live_reset_handle;      /* live_admin.c */
route_handler weights_reload_handle;  /* weights.c */
route_handler head_importance_handle; /* head_importance.c */

#endif
