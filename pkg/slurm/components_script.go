package slurm

import (
	"fmt"
	"strings"
)

// componentVariables are the variables of a heterogeneous job, by their names of today and by those before 20.02.
func (r *request) componentVariables() [][2]string {
	if len(r.components) == 0 {
		return nil
	}
	var out [][2]string
	for _, word := range []string{"HET", "PACK"} {
		out = append(out, [2]string{"SLURM_" + word + "_SIZE", fmt.Sprint(len(r.components))})
		for i, c := range r.components {
			suffix := fmt.Sprintf("_%s_GROUP_%d", word, i)
			out = append(out,
				[2]string{"SLURM_JOB_NODELIST" + suffix, c.nodeNames()}, [2]string{"SLURM_NODELIST" + suffix, c.nodeNames()},
				[2]string{"SLURM_NNODES" + suffix, fmt.Sprint(c.nodes)}, [2]string{"SLURM_JOB_NUM_NODES" + suffix, fmt.Sprint(c.nodes)},
				[2]string{"SLURM_NTASKS" + suffix, fmt.Sprint(c.nodes * c.tasksPerNode)}, [2]string{"SLURM_CPUS_PER_TASK" + suffix, fmt.Sprint(max(c.cpus/c.tasksPerNode, 1))})
		}
	}
	return out
}

// nodeNames is a shell expression for the names of a component's nodes.
func (r *request) nodeNames() string {
	return fmt.Sprintf(`$(echo "${MPI_HOSTS:-$HOSTNAME}" | sed 's/:[0-9]*//g' | cut -d, -f%d-%d)`, r.firstNode+1, r.firstNode+r.nodes)
}

// runsComponents stands in for srun in a heterogeneous job: its parts, separated by colons, run on one component each, or on those of --het-group, and the
// tasks of all parts are numbered through.
const runsComponents = `srun() {
  local total=0 offset=0 running="" failed=0 pid begin=""
  srun_parts "$@"
  total=$offset offset=0 begin=yes
  srun_parts "$@"
  for pid in $running; do wait "$pid" || failed=$?; done
  return "$failed"
}
srun_parts() {
  local part=0
  local -a words
  words=()
  while [ $# -gt 0 ]; do
    if [ "$1" = : ]; then
      srun_part "$part" "${words[@]}"
      part=$((part + 1)) words=()
    else
      words+=("$1")
    fi
    shift
  done
  srun_part "$part" "${words[@]}"
}
srun_part() {
  local groups=$1 group count="" first nodes tasks each most all index task
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --) shift; break ;;
      --het-group=* | --pack-group=*) groups=${1#*=}; shift ;;
      --het-group | --pack-group) groups=$2; shift 2 ;;
      -n | --ntasks) count=$2; shift 2 ;;
      -n[0-9]*) count=${1#-n}; shift ;;
      --ntasks=*) count=${1#*=}; shift ;;
      --*=*) shift ;;
      -[NcGtpwxJAeoiKmDrTqCSgdMPs]%[1]s) shift 2 ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  for group in $(echo "$groups" | tr , '\n' | while IFS=- read -r first nodes; do seq "$first" "${nodes:-$first}"; done); do
    read -r first nodes tasks each most < <(srun_component "$group")
    [ "$nodes" -gt 0 ] || failed=1
    all=${count:-$((tasks * nodes))} index=$((${NODE_RANK:-0} - first)) task=0
    while [ -n "$begin" ] && [ "$index" -ge 0 ] && [ "$index" -lt "$nodes" ] && [ "$task" -lt "$tasks" ] && [ $((index * tasks + task)) -lt "$all" ]; do
      SLURM_LOCALID=$task SLURM_PROCID=$((offset + index * tasks + task)) SLURM_NTASKS=$total SLURM_NPROCS=$total %[2]s"$@" &
      running="$running $!"
      task=$((task + 1))
    done
    offset=$((offset + all))
  done
}
srun_component() {
  case $1 in
%[3]s    *) echo "srun: there is no component $1" >&2; echo 0 0 0 0 0 ;;
  esac
}
`

// componentCards lets each task see its own GPUs, or those that its component asks for.
const componentCards = `CUDA_VISIBLE_DEVICES=$(seq -s, $((each * task)) $((each > 0 ? each * task + each - 1 : most - 1))) `

// runComponents is the stand-in for srun, with the places of the components: first node, nodes, tasks of a node, GPUs of a task and of a node.
func (r *request) runComponents() string {
	var places strings.Builder
	for i, c := range r.components {
		fmt.Fprintf(&places, "    %d) echo %d %d %d %d %d ;;\n", i, c.firstNode, c.nodes, c.tasksPerNode, c.gpusPerTask, c.gpus)
	}
	cards := ""
	if r.gpus > 0 {
		cards = componentCards
	}
	return fmt.Sprintf(runsComponents, r.separateValueOptions(), cards, places.String())
}
