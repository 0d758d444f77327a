package supportbundle

import (
	"net/url"
	"slices"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Item is one item of a bundle.
type Item struct {
	// Name is the file in the bundle, and What its description.
	Name string `json:"name"`
	What string `json:"what"`

	// path and query are the API server request for it.
	path  string
	query url.Values
}

// Says returns the description in every language.
func (i *Item) Says() phrase.Text { return phrase.Template(i.What, nil) }

const (
	ourLabel = "app.kubernetes.io/part-of=g8s"
	// The agents, of which each node has one, are read separately, after the others.
	anAgent   = "app.kubernetes.io/name=gpu-agent"
	noAgent   = "app.kubernetes.io/name!=gpu-agent"
	system    = "kube-system"
	logLines  = "5000"
	container = "/log"
)

func fileOf(name string) string { return "objects/" + name + ".json" }

func list(name, what, path string, query ...string) Item {
	item := Item{Name: fileOf(name), What: what, path: path, query: url.Values{}}
	for i := 0; i+1 < len(query); i += 2 {
		item.query.Set(query[i], query[i+1])
	}
	return item
}

// labelled is an item for objects with our label in a namespace in which only administrators write: anyone may set the label.
func labelled(name, what, group, namespace, kind string) Item {
	return list(name, what, group+"/namespaces/"+namespace+"/"+kind, "labelSelector", ourLabel)
}

const (
	ourPods    = "our-pods"
	serverPods = "server-pods"
	agentPods  = "agent-pods"
)

// installed returns the items about our programs. server is the namespace of gpuctl-server.
func installed(server string) []Item {
	return []Item{
		list(ourPods, "pods of the scheduler, the controller and the others", "/api/v1/namespaces/"+system+"/pods",
			"labelSelector", ourLabel+","+noAgent),
		labelled("our-deployments", "their Deployments", "/apis/apps/v1", system, "deployments"),
		labelled("our-daemonsets", "their DaemonSets", "/apis/apps/v1", system, "daemonsets"),
		labelled("our-statefulsets", "their StatefulSets", "/apis/apps/v1", system, "statefulsets"),
		labelled("our-configuration", "their configuration: the ConfigMaps with our label", "/api/v1", system, "configmaps"),
		labelled("component-endpoints", "their Services", "/api/v1", system, "services"),
		labelled(serverPods, "pods of gpuctl-server", "/api/v1", server, "pods"),
		labelled("server-deployments", "its Deployment", "/apis/apps/v1", server, "deployments"),
		labelled("server-configuration", "its ConfigMaps with our label", "/api/v1", server, "configmaps"),
		labelled("server-endpoints", "its Services", "/api/v1", server, "services"),
		list(agentPods, "pods of the agents", "/api/v1/namespaces/"+system+"/pods", "labelSelector", ourLabel+","+anAgent),
		list("leases", "who leads", "/apis/coordination.k8s.io/v1/namespaces/"+system+"/leases"),
	}
}

// others are the items about the cluster.
var others = []Item{
	list("nodes", "all nodes", "/api/v1/nodes"),
	list("gpupools", "GPUPools", "/apis/g8s.host/v1alpha1/gpupools"),
	list("gpuquotas", "GPUQuotas", "/apis/g8s.host/v1alpha1/gpuquotas"),
	list("gpureservations", "GPUReservations", "/apis/g8s.host/v1alpha1/gpureservations"),
	list("spotpools", "SpotPools", "/apis/g8s.host/v1alpha1/spotpools"),
	list("priorityclasses", "priority classes", "/apis/scheduling.k8s.io/v1/priorityclasses"),
	list("policies", "admission policies", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
	list("policy-bindings", "where they hold", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"),
	list("pods-that-wait", "pods without a node, of all namespaces", "/api/v1/pods", "fieldSelector", "spec.nodeName=,status.phase=Pending"),
	list("podgroups", "gangs", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
	list("jobs", "Jobs of gpuctl", "/apis/batch/v1/jobs", "labelSelector", "g8s.host/job"),
	list("resourcequotas", "quotas", "/api/v1/resourcequotas"),
	list("warnings", "events that warn, of all namespaces", "/api/v1/events", "fieldSelector", "type=Warning"),
}

// Items returns the items of a bundle, besides the files that derive from them: the versions, the output of gpuctl doctor, and the logs of our pods.
// Content of users comes last, so that it cannot displace other content. Secrets are never read, and only ConfigMaps of ours. server is the result of
// [doctor.ServerNamespace].
func Items(server string) []Item { return slices.Concat(installed(server), others) }
