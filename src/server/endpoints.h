/* The handlers of the routes, one file each. */
#ifndef ATTND_SERVER_ENDPOINTS_H
#define ATTND_SERVER_ENDPOINTS_H

#include "server/routes.h"

route_handler forward_handle;      /* forward.c */
route_handler importance_handle;   /* importance.c */
route_handler weights_list_handle; /* weights.c */
route_handler weights_get_handle;  /* weights.c */
route_handler healthz_handle;      /* health.c */
route_handler readyz_handle;       /* health.c */
route_handler openapi_handle;      /* openapi.c */

#endif
