/* lazy_curl.c - finds libcurl's functions by name. The library stays loaded until the program ends. */
#include "server/hub/lazy_curl.h"

#include <dlfcn.h>

hs__curl_functions hs__curl;

hs_status hs__curl_load(hs_error *err)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return hs_fail(
            err, HS_UNSUPPORTED,
            "downloading needs libcurl (%s): install Debian's package libcurl4 or Fedora's libcurl; "
            "or download with Python's huggingface_hub, whose files headscope finds",
            dlerror());
    const struct {
        const char *name;
        void **function;
    } list[] = {
#define X(name) {"curl_" #name, (void **)&hs__curl.name},
        HS__CURL_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!(*list[i].function = dlsym(library, list[i].name)))
            return hs_fail(err, HS_UNSUPPORTED, "this libcurl has no %s: install a newer one", list[i].name);
    return HS_OK;
}
