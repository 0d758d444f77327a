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
	// askEvery is how often the machine's cloud is asked whether it takes the machine back, and askTimeout how long that may take.
	askEvery   = 5 * time.Second
	askTimeout = 3 * time.Second
	// mostSaid is more than any time is written with.
	mostSaid = 64
	// farthest is how long from now an end is believed: notices are of minutes, and what is told moves all jobs away. One that has
	// passed is of another machine, or of another day, but for as much as clocks differ.
	farthest = time.Hour
	skew     = time.Minute
	// repeatEvery is how often a word that stands is written: a node that was registered again has lost it.
	repeatEvery = time.Minute
	// withdrawn is how often in a row the cloud has to say nothing until its word is taken from the node.
	withdrawn = 12
)

// beijing is the zone of times that say none: Tencent Cloud's.
var beijing = time.FixedZone("UTC+8", 8*60*60)

// herald asks the cloud of this machine when it takes the machine back, and writes it on the node, from where gpu-controller moves the
// jobs away: docs/spot.md.
type herald struct {
	url   string
	log   *slog.Logger
	now   func() time.Time
	write func(ctx context.Context, kind types.PatchType, patch []byte) error

	http *http.Client
	// heard is what the cloud said last, written what stands on the node, complained what was logged last.
	heard, written, complained string
	// wrote is when it was written, silent how often in a row nothing was said since.
	wrote  time.Time
	silent int
}

// newHerald is nil where there is no cloud to ask.
func newHerald(o *Options, client *apiServer) *herald {
	if o.InterruptionURL == "" {
		return nil
	}
	return &herald{
		url: o.InterruptionURL, log: o.Log, now: time.Now, http: metadataClient(),
		write: func(ctx context.Context, kind types.PatchType, patch []byte) error {
			return client.patchNode(ctx, o.NodeName, kind, patch)
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

// ask asks once, and writes what was said twice in a row. What stands on the node is written again from time to time, and taken
// from it when the cloud says nothing any more.
func (h *herald) ask(ctx context.Context) error {
	text, err := h.listen(ctx)
	before := h.heard
	h.heard = text
	if err != nil || text != "" {
		h.silent = 0
	}
	switch now := h.now(); {
	case err != nil:
		return err
	case text == "":
		return h.withdraw(ctx)
	case text != before, text == h.written && now.Sub(h.wrote) < repeatEvery:
		return nil
	}
	return h.note(ctx, text)
}

// listen returns what the cloud says as it is written on nodes, "" where it takes nothing back.
func (h *herald) listen(ctx context.Context) (string, error) {
	said, err := h.read(ctx)
	if err != nil || said == "" {
		return "", err
	}
	end, err := endOf(said, h.now())
	if err != nil {
		return "", err
	}
	return end.UTC().Format(time.RFC3339), nil
}

func (h *herald) note(ctx context.Context, text string) error {
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

// withdraw takes from the node what this program wrote, once the cloud has said nothing for long enough. What another has written
// there since is left alone.
func (h *herald) withdraw(ctx context.Context) error {
	if h.silent++; h.written == "" || h.silent < withdrawn {
		return nil
	}
	at := "/metadata/annotations/" + strings.ReplaceAll(names.AnnotationInterruption, "/", "~1")
	patch, err := json.Marshal([]map[string]string{{"op": "test", "path": at, "value": h.written}, {"op": "remove", "path": at}})
	if err != nil {
		return fmt.Errorf("encoding that the machine is not taken back: %w", err)
	}
	// The test fails where it is not there any more, or says something else.
	if err := h.write(ctx, types.JSONPatchType, patch); err != nil && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing that the machine is not taken back: %w", err)
	}
	h.log.InfoContext(ctx, "The cloud does not take this machine back any more", "at", h.written)
	h.written = ""
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
	if end.Before(now.Add(-skew)) || end.After(now.Add(farthest)) {
		return end, fmt.Errorf("the machine's cloud says that it ends at %s, which is not believed", said)
	}
	return end, nil
}
