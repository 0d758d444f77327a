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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// cloudPollInterval is the interval at which the machine's cloud is polled for an interruption, and cloudTimeout how long that may take.
	cloudPollInterval = 5 * time.Second
	cloudTimeout      = 3 * time.Second
	// maxResponseBytes is longer than any format of a time.
	maxResponseBytes = 64
	// maxInterruptionDelay is the longest time until an interruption that is believed: notices come minutes ahead, and reporting one moves all jobs away. A time
	// in the past, beyond the clock skew, belongs to another machine or another day.
	maxInterruptionDelay = time.Hour
	maxClockSkew         = time.Minute
	// rewriteInterval is the interval at which a valid announcement is rewritten: a node that was registered again has lost it.
	rewriteInterval = time.Minute
	// silentPollsToRemove is how many times in a row the cloud must announce nothing before the announcement is removed from the node.
	silentPollsToRemove = 12
)

// beijing is the time zone of times without one: Tencent Cloud's.
var beijing = time.FixedZone("UTC+8", 8*60*60)

// interruptionWatcher polls the cloud of this machine for an interruption, and writes it on the node, from where gpu-controller moves the jobs away: docs/spot.md.
type interruptionWatcher struct {
	url   string
	log   *slog.Logger
	now   func() time.Time
	write func(ctx context.Context, kind types.PatchType, patch []byte) error

	http *http.Client
	// lastHeard is the last announcement, written what the node's annotation has, complained the last logged error.
	lastHeard, written, lastError string
	// wrote is when it was written, silent how many times in a row nothing was announced since.
	wrote  time.Time
	silent int
}

// newInterruptionWatcher returns nil if there is no cloud to poll.
func newInterruptionWatcher(o *Options, client *apiServer) *interruptionWatcher {
	if o.InterruptionURL == "" {
		return nil
	}
	return &interruptionWatcher{
		url: o.InterruptionURL, log: o.Log, now: time.Now, http: metadataClient(),
		write: func(ctx context.Context, kind types.PatchType, patch []byte) error {
			return client.patchNode(ctx, o.NodeName, kind, patch)
		},
	}
}

// metadataClient only connects to this machine's metadata service: without a proxy, and without following redirects.
func metadataClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		Timeout:       cloudTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// runLoop asks until ctx ends.
func (h *interruptionWatcher) runLoop(ctx context.Context) error {
	for {
		if err := h.pollOnce(ctx); err != nil && ctx.Err() == nil && err.Error() != h.lastError { // not every few seconds
			h.lastError = err.Error()
			h.log.WarnContext(ctx, "Nobody knows whether this machine is taken back", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cloudPollInterval):
		}
	}
}

// pollOnce polls once, and writes what was announced twice in a row. It rewrites the annotation from time to time, and removes it when the cloud announces
// nothing any longer.
func (h *interruptionWatcher) pollOnce(ctx context.Context) error {
	text, err := h.readInterruption(ctx)
	before := h.lastHeard
	h.lastHeard = text
	if err != nil || text != "" {
		h.silent = 0
	}
	switch now := h.now(); {
	case err != nil:
		return err
	case text == "":
		return h.removeAnnotation(ctx)
	case text != before, text == h.written && now.Sub(h.wrote) < rewriteInterval:
		return nil
	}
	return h.writeAnnotation(ctx, text)
}

// readInterruption returns the announcement in the form that is written on nodes, "" if there is none.
func (h *interruptionWatcher) readInterruption(ctx context.Context) (string, error) {
	said, err := h.fetchFromCloud(ctx)
	if err != nil || said == "" {
		return "", err
	}
	end, err := parseInterruptionTime(said, h.now())
	if err != nil {
		return "", err
	}
	return end.UTC().Format(time.RFC3339), nil
}

func (h *interruptionWatcher) writeAnnotation(ctx context.Context, text string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{names.AnnotationInterruption: text}}})
	if err != nil {
		return fmt.Errorf("encoding when the machine is taken back: %w", err)
	}
	if err := h.write(ctx, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("writing when the machine is taken back: %w", err)
	}
	if text != h.written {
		h.log.InfoContext(ctx, "The cloud takes this machine back", "at", text)
	}
	h.written, h.wrote = text, h.now()
	return nil
}

// removeAnnotation removes the agent's annotation from the node once the cloud has announced nothing for long enough. It does not touch a value written by
// another client since.
func (h *interruptionWatcher) removeAnnotation(ctx context.Context) error {
	if h.silent++; h.written == "" || h.silent < silentPollsToRemove {
		return nil
	}
	at := "/metadata/annotations/" + strings.ReplaceAll(names.AnnotationInterruption, "/", "~1")
	patch, err := json.Marshal([]map[string]string{{"op": "test", "path": at, "value": h.written}, {"op": "remove", "path": at}})
	if err != nil {
		return fmt.Errorf("encoding that the machine is not taken back: %w", err)
	}
	// The test fails if the annotation is gone or has another value.
	if err := h.write(ctx, types.JSONPatchType, patch); err != nil && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing that the machine is not taken back: %w", err)
	}
	h.log.InfoContext(ctx, "The cloud does not take this machine back any more", "at", h.written)
	h.written = ""
	return nil
}

// fetchFromCloud returns the cloud's announcement, "" if there is none.
func (h *interruptionWatcher) fetchFromCloud(ctx context.Context) (string, error) {
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
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	if err != nil {
		return "", fmt.Errorf("asking the machine's cloud: %w", err)
	}
	if len(body) > maxResponseBytes {
		return "", errors.New("the machine's cloud says more than a time")
	}
	return strings.TrimSpace(string(body)), nil
}

// parseInterruptionTime parses the time at which a machine is taken back: RFC 3339, or Tencent Cloud's format.
func parseInterruptionTime(said string, now time.Time) (time.Time, error) {
	end, err := time.Parse(time.RFC3339, said)
	if err != nil {
		if end, err = time.ParseInLocation(time.DateTime, said, beijing); err != nil {
			return end, fmt.Errorf("the machine's cloud says %q, which is no time", said)
		}
	}
	if end.Before(now.Add(-maxClockSkew)) || end.After(now.Add(maxInterruptionDelay)) {
		return end, fmt.Errorf("the machine's cloud says that it ends at %s, which is not believed", said)
	}
	return end, nil
}
