package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// jobDetail converts a job to its API form, with its message in the language of the request. spec is the submitted YAML as a value.
func jobDetail(ctx context.Context, d *inventory.JobDetail, spec map[string]any, now time.Time) JobDetail {
	out := JobDetail{
		JobID: d.Name, Name: d.Name, Namespace: d.Namespace, Kind: d.Kind,
		Status: string(d.Status), Reason: d.Reason, Message: languageFrom(ctx).TranslateMessage(d.Message),
		Age: duration.HumanDuration(now.Sub(d.Created)), Created: d.Created, Completed: d.Finished,
		Priority: d.Priority, Pool: d.Pool, User: d.User, Description: d.Description, Ready: d.Ready, Desired: d.Desired,
		Resources:    podResources(d),
		ResourceType: d.Object.Kind, Object: d.Object.Name, Nodes: d.Nodes, Container: d.Container, Segments: d.Segments, Kueue: d.Kueue,
		Pods: orEmpty(d.Pods), Services: orEmpty(d.Services), Events: jobEvents(newestItems(d.Events, maxDetailEvents), now), AccessMethods: jobAccess(d),
		YAMLContent: spec,
	}
	for i := range d.Pods {
		if started := d.Pods[i].Started; started != nil && (out.Started == nil || started.Before(*out.Started)) {
			out.Started = started
		}
	}
	return out
}

func podResources(d *inventory.JobDetail) JobResources {
	return JobResources{
		CPU: d.Container.Requests["cpu"], Memory: d.Container.Requests["memory"], GPU: d.PodGPUs, GPUTypes: d.GPUTypes, MIG: d.MIG,
	}
}

// parseSubmitted parses the submitted YAML. Anyone who may change the job may have changed it, so it is parsed within the limits of a document and in the
// caller's slot. It returns nil for invalid YAML; /spec still has the text.
func (s *Server) parseSubmitted(ctx context.Context, source string) (map[string]any, error) {
	leave, err := s.acquireReadSlot(ctx, source)
	if err != nil {
		return nil, err
	}
	defer leave()
	var out map[string]any
	if err := safeyaml.Unmarshal([]byte(source), &out, workload.UnfoldLimits); err != nil {
		return nil, nil
	}
	return out, nil
}

// addSegments adds the location of the job's segments if the document asks for segments and the caller may list nodes.
func (s *Server) addSegments(ctx context.Context, job *inventory.JobDetail, document map[string]any) error {
	size, level := requestedSegments(document)
	if size == 0 {
		return nil
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return err
	}
	switch err := caller.CheckListRight(ctx, "", nodeResource); {
	case errors.As(err, new(*access.DeniedError)):
		return nil
	case err != nil:
		return err
	}
	view, err := s.cache.latestView()
	if err != nil {
		return err
	}
	job.FillSegments(size, level, view.Objects.Nodes)
	return nil
}

// requestedSegments returns the segment size and topology level that the document of a job asks for; 0 for none.
func requestedSegments(document map[string]any) (size int, level string) {
	var asked struct {
		Resources struct {
			Topology struct {
				Level   string `json:"level"`
				Segment int    `json:"segment"`
			} `json:"topology"`
		} `json:"resources"`
	}
	part, err := json.Marshal(map[string]any{"resources": document["resources"]})
	if err != nil || json.Unmarshal(part, &asked) != nil { // anyone who may change the job may have changed this
		return 0, ""
	}
	return max(0, asked.Resources.Topology.Segment), asked.Resources.Topology.Level
}

// maxDetailEvents is how many events are shown with a job.
const maxDetailEvents = 100

// newestItems returns the last items of a list.
func newestItems[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

func jobEvents(events []inventory.Event, now time.Time) []JobEvent {
	out := make([]JobEvent, len(events))
	for i, e := range events {
		out[i] = JobEvent{
			Age: duration.HumanDuration(now.Sub(e.Last)), Type: e.Type, Reason: e.Reason, Object: e.Object,
			Message: e.Message, Count: e.Count, LastSeen: e.Last,
		}
	}
	return out
}

// jobAccess returns how to reach a service; nil for a job that has none.
func jobAccess(d *inventory.JobDetail) *JobAccess {
	if len(d.Services) == 0 {
		return nil
	}
	service, out := d.Services[0], &JobAccess{}
	for _, pod := range d.Pods {
		if pod.IP != "" && out.PodIP == nil {
			out.PodIP = &PodIPAccess{PodIP: pod.IP, Port: service.Port, URL: fmt.Sprintf("http://%s:%d", pod.IP, service.Port)}
		}
	}
	if service.ClusterIP != "" && service.ClusterIP != "None" {
		out.ClusterIP = &ClusterIPAccess{
			ClusterIP: service.ClusterIP, Port: service.Port, URL: fmt.Sprintf("http://%s:%d", service.ClusterIP, service.Port),
		}
	}
	if service.NodePort != 0 {
		out.NodePort = &NodePortAccess{NodePort: service.NodePort}
		if len(d.Nodes) > 0 {
			out.NodePort.Node = d.Nodes[0]
		}
	}
	return out
}

// orEmpty replaces nil by an empty list, so that JSON has no null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
