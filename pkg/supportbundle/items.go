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

// Message returns the description in every language.
func (i *Item) Message() phrase.Text { return phrase.FromTemplate(i.What, nil) }

const (
	ourLabel = "app.kubernetes.io/part-of=g8s"
	// The agents, of which each node has one, are read separately, after the others.
	anAgent   = "app.kubernetes.io/name=gpu-agent"
	noAgent   = "app.kubernetes.io/name!=gpu-agent"
	system    = "kube-system"
	logLines  = "5000"
	container = "/log"
)

func objectFile(name string) string { return "objects/" + name + ".json" }

func newItem(name, what, path string, query ...string) Item {
	item := Item{Name: objectFile(name), What: what, path: path, query: url.Values{}}
	for i := 0; i+1 < len(query); i += 2 {
		item.query.Set(query[i], query[i+1])
	}
	return item
}

// newLabelledItem is an item for objects with our label in a namespace in which only administrators write: anyone may set the label.
func newLabelledItem(name, what, group, namespace, kind string) Item {
	return newItem(name, what, group+"/namespaces/"+namespace+"/"+kind, "labelSelector", ourLabel)
}

const (
	ourPods    = "our-pods"
	serverPods = "server-pods"
	agentPods  = "agent-pods"
)

// installedItems returns the items about our programs. server is the namespace of gpuctl-server.
func installedItems(server string) []Item {
	return []Item{
		newItem(ourPods, "pods of the scheduler, the controller and the others", "/api/v1/namespaces/"+system+"/pods",
			"labelSelector", ourLabel+","+noAgent),
		newLabelledItem("our-deployments", "their Deployments", "/apis/apps/v1", system, "deployments"),
		newLabelledItem("our-daemonsets", "their DaemonSets", "/apis/apps/v1", system, "daemonsets"),
		newLabelledItem("our-statefulsets", "their StatefulSets", "/apis/apps/v1", system, "statefulsets"),
		newLabelledItem("our-configuration", "their configuration: the ConfigMaps with our label", "/api/v1", system, "configmaps"),
		newLabelledItem("component-endpoints", "their Services", "/api/v1", system, "services"),
		newLabelledItem(serverPods, "pods of gpuctl-server", "/api/v1", server, "pods"),
		newLabelledItem("server-deployments", "its Deployment", "/apis/apps/v1", server, "deployments"),
		newLabelledItem("server-configuration", "its ConfigMaps with our label", "/api/v1", server, "configmaps"),
		newLabelledItem("server-endpoints", "its Services", "/api/v1", server, "services"),
		newItem(agentPods, "pods of the agents", "/api/v1/namespaces/"+system+"/pods", "labelSelector", ourLabel+","+anAgent),
		newItem("leases", "who leads", "/apis/coordination.k8s.io/v1/namespaces/"+system+"/leases"),
	}
}

// clusterItems are the items about the cluster.
var clusterItems = []Item{
	newItem("nodes", "all nodes", "/api/v1/nodes"),
	newItem("gpupools", "GPUPools", "/apis/g8s.host/v1alpha1/gpupools"),
	newItem("gpuquotas", "GPUQuotas", "/apis/g8s.host/v1alpha1/gpuquotas"),
	newItem("gpureservations", "GPUReservations", "/apis/g8s.host/v1alpha1/gpureservations"),
	newItem("spotpools", "SpotPools", "/apis/g8s.host/v1alpha1/spotpools"),
	newItem("priorityclasses", "priority classes", "/apis/scheduling.k8s.io/v1/priorityclasses"),
	newItem("policies", "admission policies", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
	newItem("policy-bindings", "where they hold", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"),
	newItem("pods-that-wait", "pods without a node, of all namespaces", "/api/v1/pods", "fieldSelector", "spec.nodeName=,status.phase=Pending"),
	newItem("podgroups", "gangs", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
	newItem("jobs", "Jobs of gpuctl", "/apis/batch/v1/jobs", "labelSelector", "g8s.host/job"),
	newItem("resourcequotas", "quotas", "/api/v1/resourcequotas"),
	newItem("warnings", "events that warn, of all namespaces", "/api/v1/events", "fieldSelector", "type=Warning"),
}

// Items returns the items of a bundle, besides the files that derive from them: the versions, the output of gpuctl doctor, and the logs of our pods.
// Content of users comes last, so that it cannot displace other content. Secrets are never read, and only ConfigMaps of ours. server is the result of
// [doctor.ServerNamespace].
func Items(server string) []Item { return slices.Concat(installedItems(server), clusterItems) }
