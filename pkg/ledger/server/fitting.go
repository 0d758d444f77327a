package server

import (
	"encoding/json"
	"fmt"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

// items is a [ledger.JobList] or another list, with encoded items.
type items struct {
	Items []json.RawMessage `json:"items"`
	More  bool              `json:"more,omitempty"`
}

// detail is a [ledger.JobDetail] with encoded holdings.
type detail struct {
	*ledger.Job
	Holdings []json.RawMessage `json:"holdings"`
	More     bool              `json:"more,omitempty"`
}

// listOf returns a list with as many items as fit into an answer.
func listOf[T any](found []T, more bool, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	fit, cut, err := fitItems(found)
	return items{Items: fit, More: more || cut}, err
}

// fitItems returns the first items that fit into an answer, at least one. A byte may become six in JSON.
func fitItems[T any](found []T) (fit []json.RawMessage, more bool, err error) {
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

// sumUsage returns as many sums as fit into an answer. All others are the rest.
func (h *handler) sumUsage(q store.UsageQuery) (any, error) {
	for {
		usage, err := h.Store.Usage(q)
		if err != nil {
			return nil, err
		}
		fit, more, err := fitItems(usage.Items)
		if err != nil || !more {
			return usage, err
		}
		q.Most = len(fit)
	}
}
