package server

import (
	"encoding/base64"
	"slices"
)

// Paging selects a part of a list by page number, or by limit and continue. The latter neither skips nor repeats items when others come and go in
// between.
type Paging struct {
	Page     int    `query:"page" minimum:"1" default:"1" doc:"The page, from 1"`
	PageSize int    `query:"pageSize" minimum:"1" maximum:"100" default:"20" doc:"Items on a page"`
	Limit    int    `query:"limit" minimum:"0" maximum:"500" doc:"Items at most; page and pageSize are then ignored"`
	Continue string `query:"continue" doc:"The continue of the answer before, to go on after it"`
}

// Page is a part of a list.
type Page[T any] struct {
	Total    int    `json:"total" doc:"How many items match, on all pages"`
	Items    []T    `json:"items"`
	Continue string `json:"continue,omitempty" doc:"Send it back to get the items that follow; absent on the last page"`
}

// cutPage returns the selected part of a list that is sorted by key.
func cutPage[S, T any](p Paging, list []S, key func(S) string, show func(S) T) (Page[T], error) {
	out := Page[T]{Total: len(list), Items: []T{}}
	var rest []S
	size := p.PageSize
	if p.Limit > 0 || p.Continue != "" {
		start, err := indexAfter(p.Continue, list, key)
		if err != nil {
			return out, err
		}
		rest = list[start:]
		if size = p.Limit; size == 0 {
			size = p.PageSize
		}
	} else if skip := (p.Page - 1) * p.PageSize; skip >= 0 && skip < len(list) {
		rest = list[skip:]
	}
	for _, item := range rest[:min(size, len(rest))] {
		out.Items = append(out.Items, show(item))
	}
	if len(rest) > size {
		out.Continue = base64.RawURLEncoding.EncodeToString([]byte(key(rest[size-1])))
	}
	return out, nil
}

// indexAfter returns the index of the first item after the one that a continue token names, which may be gone.
func indexAfter[S any](token string, list []S, key func(S) string) (int, error) {
	if token == "" {
		return 0, nil
	}
	last, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, invalidErrorf("continue is none that this server gave: begin without it")
	}
	i := slices.IndexFunc(list, func(item S) bool { return key(item) > string(last) })
	if i < 0 {
		return len(list), nil
	}
	return i, nil
}
