package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// line is an event as it is written.
type line struct {
	At     time.Time       `json:"at"`
	Type   watch.EventType `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Read reads a recording. A truncated recording is read up to its last full line.
func Read(from io.Reader) (*Recording, error) {
	decoder := json.NewDecoder(from)
	r := &Recording{}
	began := false
	for number := 1; ; number++ {
		var l line
		switch err := decoder.Decode(&l); {
		case (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && began:
			slices.SortStableFunc(r.Events, func(a, b Event) int { return cmp.Compare(a.Revision, b.Revision) })
			return r, nil
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errors.New("it ends before all objects are listed: record again, gpu-scheduler simulate record")
		case err != nil:
			return nil, fmt.Errorf("reading event %d: %w", number, err)
		}
		if l.Type == watch.Bookmark {
			began, r.Start = true, l.At
			continue
		}
		if err := r.addLine(&l, began); err != nil {
			return nil, fmt.Errorf("reading event %d: %w", number, err)
		}
	}
}

// addLine adds a line: to the initial state until the recording has begun, and to the changes from then on.
func (r *Recording) addLine(l *line, began bool) error {
	if !began && l.isRuns() {
		return r.readRuns(l.Object)
	}
	event, err := l.decodeEvent()
	switch {
	case err != nil:
		return err
	case began:
		r.Events = append(r.Events, event)
	default:
		r.addInitial(event)
	}
	return nil
}

// addInitial adds what there was.
func (r *Recording) addInitial(event Event) {
	switch {
	case event.Pod != nil:
		r.Pods = append(r.Pods, event.Pod)
	case event.Node != nil:
		r.Nodes = append(r.Nodes, event.Node)
	case event.Group != nil:
		r.Groups = append(r.Groups, event.Group)
	}
}

// readRuns reads the data of a ledger.
func (r *Recording) readRuns(object json.RawMessage) error {
	var list ledger.RunList
	if err := json.Unmarshal(object, &list); err != nil {
		return fmt.Errorf("reading how long jobs have run: %w", err)
	}
	r.Runs = list.Items
	return nil
}

// isRuns reports whether an object is the data of a ledger.
func (l *line) isRuns() bool {
	var kind metav1.TypeMeta
	return json.Unmarshal(l.Object, &kind) == nil && kind.Kind == kindOfRuns
}

func (l *line) decodeEvent() (Event, error) {
	var kind metav1.PartialObjectMetadata
	if err := json.Unmarshal(l.Object, &kind); err != nil {
		return Event{}, err
	}
	event := Event{Type: l.Type, At: l.At}
	var into any
	switch kind.Kind {
	case "Pod":
		event.Pod = &corev1.Pod{}
		into = event.Pod
	case "Node":
		event.Node = &corev1.Node{}
		into = event.Node
	case "PodGroup":
		event.Group = &gangsv1.PodGroup{}
		into = event.Group
	default:
		return Event{}, fmt.Errorf("it is of a %q, want a Pod, Node or PodGroup", kind.Kind)
	}
	if err := json.Unmarshal(l.Object, into); err != nil {
		return Event{}, fmt.Errorf("reading %s %s: %w", kind.Kind, kind.Name, err)
	}
	var err error
	if event.Revision, err = strconv.ParseInt(kind.ResourceVersion, 10, 64); err != nil {
		return Event{}, fmt.Errorf("reading the revision of %s %s: %w", kind.Kind, kind.Name, err)
	}
	return event, nil
}
