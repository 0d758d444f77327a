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

// rejectUnknownQuery rejects a query that cannot be parsed or has unknown parameters: with a misspelled dryRun a request would make the change, and with
// a misspelled namespace it would list all namespaces. Public routes answer every caller alike and accept any query.
func rejectUnknownQuery(api huma.API) func(huma.Context, func(huma.Context)) {
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
