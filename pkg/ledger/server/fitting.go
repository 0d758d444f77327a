package server

import (
	"encoding/json"
	"fmt"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

// items are a [ledger.JobList], or another list, of items that are JSON already.
type items struct {
	Items []json.RawMessage `json:"items"`
	More  bool              `json:"more,omitempty"`
}

// detail is a [ledger.JobDetail], likewise.
type detail struct {
	*ledger.Job
	Holdings []json.RawMessage `json:"holdings"`
	More     bool              `json:"more,omitempty"`
}

// listOf is a list of items, as many as fit into an answer.
func listOf[T any](found []T, more bool, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	fit, cut, err := fitting(found)
	return items{Items: fit, More: more || cut}, err
}

// fitting are the first items that an answer has room for, one at the least. What is written as a byte may be six in JSON.
func fitting[T any](found []T) (fit []json.RawMessage, more bool, err error) {
	fit = make([]json.RawMessage, 0, len(found))
	size := 0
	for i := range found {
		data, err := json.Marshal(&found[i])
		if err != nil {
			return nil, false, fmt.Errorf("encoding an answer: %w", err)
		}
		if size += len(data) + 1; size > maxAnswer && i > 0 {
			return fit, true, nil
		}
		fit = append(fit, data)
	}
	return fit, false, nil
}

// sums asks for sums, as many as fit into an answer: all others are the rest.
func (h *handler) sums(q store.UsageQuery) (any, error) {
	for {
		usage, err := h.Store.Usage(q)
		if err != nil {
			return nil, err
		}
		fit, more, err := fitting(usage.Items)
		if err != nil || !more {
			return usage, err
		}
		q.Most = len(fit)
	}
}
