package server

import "g8s.host/gpu-scheduler/pkg/server/access"

// registerRoutes declares the whole API.
func (s *Server) registerRoutes() {
	s.systemRoutes()
	s.jobRoutes()
	s.jobWriteRoutes()
	s.jobInsightRoutes()
	s.documentRoutes()
	s.simulateRoutes()
	s.diffRoutes()
	s.authRoutes()
	s.poolRoutes()
	s.spotPoolRoutes()
	s.reservationRoutes()
	s.nodeRoutes()
	s.mapRoutes()
	s.drainRoutes()
	s.labelRoutes()
	s.presetRoutes()
	s.quotaRoutes()
	s.gpuQuotaRoutes()
	s.namespaceRoutes()
	s.queueRoutes()
	s.ledgerRoutes()
}

// Resources whose lists are served from the cache.
var (
	podResource       = access.Resource{Resource: "pods"}
	logResource       = access.Resource{Resource: "pods/log"}
	nodeResource      = access.Resource{Resource: "nodes"}
	namespaceResource = access.Resource{Resource: "namespaces"}
	quotaResource     = access.Resource{Resource: "resourcequotas"}
	jobResources      = []access.Resource{
		podResource, {Group: "batch", Resource: "jobs"}, {Group: "apps", Resource: "deployments"},
	}
)
