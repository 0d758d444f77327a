package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// How the pods of a trace arrive.
const (
	arriveListed    = "listed"
	arriveTimed     = "timed"
	arrivePublished = "published"
)

// readInput returns the cluster and what comes to it, for the schedulers of some candidates.
func (s *simulation) readInput(candidates []simulate.Candidate) (simulate.Cluster, []simulate.Arrival, error) {
	if s.recording != "" {
		return s.readHistory(candidates)
	}
	if s.cluster == "" {
		return simulate.Cluster{}, nil, errors.New("--cluster is missing: name a file of nodes, such as the output of kubectl get nodes -o yaml")
	}
	if !slices.Contains([]string{arriveListed, arriveTimed, arrivePublished}, s.arrivals) {
		return simulate.Cluster{}, nil, fmt.Errorf("--arrivals is %q, want listed, timed or published", s.arrivals)
	}
	if s.arrivals == arrivePublished {
		return s.readPublished()
	}
	cluster, arrivals, err := readCluster(s.cluster)
	if err != nil {
		return simulate.Cluster{}, nil, fmt.Errorf("reading --cluster %s: %w", s.cluster, err)
	}
	for _, path := range s.workloads {
		more, err := s.readWorkload(path, cluster)
		if err != nil {
			return simulate.Cluster{}, nil, fmt.Errorf("reading --workload %s: %w", path, err)
		}
		arrivals = append(arrivals, more...)
	}
	if len(arrivals) == 0 {
		return simulate.Cluster{}, nil, errors.New("there is nothing to place: name a file with --workload, or add pods that wait to --cluster")
	}
	slices.SortStableFunc(arrivals, func(a, b simulate.Arrival) int { return cmp.Compare(a.At, b.At) })
	return cluster, arrivals, nil
}

// readHistory reads the arrivals of a recording.
func (s *simulation) readHistory(candidates []simulate.Candidate) (simulate.Cluster, []simulate.Arrival, error) {
	if s.cluster != "" || len(s.workloads) > 0 {
		return simulate.Cluster{}, nil, errors.New("--recording has nodes and pods of its own: leave out --cluster and --workload")
	}
	rec, err := s.readRecording()
	if err != nil {
		return simulate.Cluster{}, nil, err
	}
	var schedulers []string
	for _, candidate := range candidates {
		for i := range candidate.Config.Profiles {
			schedulers = append(schedulers, candidate.Config.Profiles[i].SchedulerName)
		}
	}
	s.useRecordedRuns(rec, candidates)
	cluster, arrivals := simulate.FromRecording(rec, schedulers)
	if len(arrivals) == 0 {
		return simulate.Cluster{}, nil, fmt.Errorf("nobody came in --recording %s whom a scheduler named %s would place", s.recording, schedulers[0])
	}
	return cluster, arrivals, nil
}

// useRecordedRuns bases start reservations on the ledger's run times at the beginning of the recording, and prints a note if a ledger is
// configured and these are missing.
func (s *simulation) useRecordedRuns(rec *recording.Recording, candidates []simulate.Candidate) {
	if len(rec.Runs) > 0 {
		s.past = ledger.LearnOfNamespaces(rec.Runs)
		return
	}
	for _, candidate := range candidates {
		if simulate.UsesLedger(candidate.Config) {
			fmt.Fprintf(s.progress, "%s: it names a promiseLedger, and the recording does not have what that said, so starts are promised by deadlines alone;\n"+
				"  gpu-scheduler simulate record --ledger writes it down\n", candidate.Name)
		}
	}
}

// readPublished reads one node list and one pod list, and arranges them as in the published benchmark.
func (s *simulation) readPublished() (simulate.Cluster, []simulate.Arrival, error) {
	if !trace.IsCSV(s.cluster) || len(s.workloads) != 1 || !trace.IsCSV(s.workloads[0]) {
		return simulate.Cluster{}, nil, errors.New("--arrivals published needs the node list and one pod list of an openb trace, as CSV")
	}
	nodes, err := trace.LoadNodes(s.cluster)
	if err != nil {
		return simulate.Cluster{}, nil, fmt.Errorf("reading --cluster %s: %w", s.cluster, err)
	}
	pods, err := trace.LoadPods(s.workloads[0])
	if err != nil {
		return simulate.Cluster{}, nil, fmt.Errorf("reading --workload %s: %w", s.workloads[0], err)
	}
	arrivals := trace.DrawArrivals(nodes, pods, trace.Inflation, s.seed)
	return simulate.Cluster{Nodes: simulate.NodesFromTrace(arrivals.Nodes)}, simulate.ArrivalsFromTrace(arrivals.Pods), nil
}

func readCluster(path string) (simulate.Cluster, []simulate.Arrival, error) {
	if trace.IsCSV(path) {
		nodes, err := trace.LoadNodes(path)
		return simulate.Cluster{Nodes: simulate.NodesFromTrace(nodes)}, nil, err
	}
	data, err := trace.Read(path)
	if err != nil {
		return simulate.Cluster{}, nil, err
	}
	cluster, waiting, err := simulate.ParseCluster(data)
	if err != nil {
		return simulate.Cluster{}, nil, err
	}
	if len(cluster.Nodes) == 0 {
		return simulate.Cluster{}, nil, errors.New("there is no node in it: kubectl get nodes -o yaml prints them")
	}
	return cluster, waiting, nil
}

func (s *simulation) readWorkload(path string, cluster simulate.Cluster) ([]simulate.Arrival, error) {
	if trace.IsCSV(path) {
		jobs, err := trace.LoadJobs(path)
		if err != nil || jobs != nil {
			return simulate.ArrivalsOfJobs(jobs), err
		}
		pods, err := trace.LoadPods(path)
		if s.arrivals == arriveTimed {
			return simulate.TimedArrivalsFromTrace(pods), err
		}
		return simulate.ArrivalsFromTrace(pods), err
	}
	data, err := trace.Read(path)
	if err != nil {
		return nil, err
	}
	return simulate.ParseWorkload(path, data, cluster)
}
