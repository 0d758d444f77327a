package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// onlyKnownQuery refuses a query that a route does not know, or that cannot be read: a misspelt dryRun would change
// what it should only check, a misspelt namespace list those of everybody. Public routes, which answer everyone the
// same, take any.
func onlyKnownQuery(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		op, address := ctx.Operation(), ctx.URL()
		if address.RawQuery == "" || len(op.Security) == 0 {
			next(ctx)
			return
		}
		query, err := url.ParseQuery(address.RawQuery)
		if err != nil {
			_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "the query cannot be read", err) // the client is gone
			return
		}
		var known []string
		for _, parameter := range op.Parameters {
			if parameter.In == "query" {
				known = append(known, parameter.Name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(query)) {
			if slices.Contains(known, name) {
				continue
			}
			takes := "it takes none"
			if len(known) > 0 {
				takes = "it takes " + strings.Join(known, ", ")
			}
			_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "the query is not that of this route", &huma.ErrorDetail{
				Message: fmt.Sprintf("there is no parameter %q here: %s", name, takes), Location: "query." + name,
			}) // the client is gone
			return
		}
		next(ctx)
	}
}
