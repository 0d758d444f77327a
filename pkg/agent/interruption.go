package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// askEvery is how often the machine's cloud is asked whether it takes the machine back, and askTimeout how long that may take.
	askEvery   = 5 * time.Second
	askTimeout = 3 * time.Second
	// mostSaid is more than any time is written with.
	mostSaid = 64
	// farthest is how long before and after now an end is believed: notices are of minutes, and what is told moves all jobs away.
	farthest = time.Hour
)

// beijing is the zone of times that say none: Tencent Cloud's.
var beijing = time.FixedZone("UTC+8", 8*60*60)

// herald asks the cloud of this machine when it takes the machine back, and writes it on the node, from where gpu-controller moves the
// jobs away: docs/spot.md.
type herald struct {
	url   string
	log   *slog.Logger
	now   func() time.Time
	write func(ctx context.Context, patch []byte) error

	http *http.Client
	// written is what was written last, complained what was logged last.
	written, complained string
}

// newHerald is nil where there is no cloud to ask.
func newHerald(o *Options, client *apiServer) *herald {
	if o.InterruptionURL == "" {
		return nil
	}
	return &herald{
		url: o.InterruptionURL, log: o.Log, now: time.Now, http: metadataClient(),
		write: func(ctx context.Context, patch []byte) error {
			return client.patchNode(ctx, o.NodeName, types.MergePatchType, patch)
		},
	}
}

// metadataClient asks on this machine: by no proxy, and nowhere an answer sends it.
func metadataClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		Timeout:       askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// run asks until ctx ends.
func (h *herald) run(ctx context.Context) error {
	for {
		if err := h.ask(ctx); err != nil && ctx.Err() == nil && err.Error() != h.complained { // not every few seconds
			h.complained = err.Error()
			h.log.WarnContext(ctx, "Nobody knows whether this machine is taken back", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
	}
}

// ask asks once, and writes what is new.
func (h *herald) ask(ctx context.Context) error {
	said, err := h.read(ctx)
	if err != nil || said == "" {
		return err
	}
	end, err := endOf(said, h.now())
	if err != nil {
		return err
	}
	text := end.UTC().Format(time.RFC3339)
	if text == h.written {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{names.AnnotationInterruption: text}}})
	if err != nil {
		return fmt.Errorf("encoding when the machine is taken back: %w", err)
	}
	if err := h.write(ctx, patch); err != nil {
		return fmt.Errorf("writing when the machine is taken back: %w", err)
	}
	h.written = text
	h.log.InfoContext(ctx, "The cloud takes this machine back", "at", text)
	return nil
}

// read returns what the cloud says, "" where it takes nothing back.
func (h *herald) read(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return "", fmt.Errorf("asking the machine's cloud: %w", err)
	}
	response, err := h.http.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking the machine's cloud: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	switch response.StatusCode {
	case http.StatusNotFound:
		return "", nil
	case http.StatusOK:
	default:
		return "", fmt.Errorf("asking the machine's cloud: it answers %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, mostSaid+1))
	if err != nil {
		return "", fmt.Errorf("asking the machine's cloud: %w", err)
	}
	if len(body) > mostSaid {
		return "", errors.New("the machine's cloud says more than a time")
	}
	return strings.TrimSpace(string(body)), nil
}

// endOf is when a machine is taken back of which its cloud says so: a time in RFC 3339, or as Tencent Cloud writes it.
func endOf(said string, now time.Time) (time.Time, error) {
	end, err := time.Parse(time.RFC3339, said)
	if err != nil {
		if end, err = time.ParseInLocation(time.DateTime, said, beijing); err != nil {
			return end, fmt.Errorf("the machine's cloud says %q, which is no time", said)
		}
	}
	if end.Before(now.Add(-farthest)) || end.After(now.Add(farthest)) {
		return end, fmt.Errorf("the machine's cloud says that it ends at %s, which is not believed", said)
	}
	return end, nil
}
