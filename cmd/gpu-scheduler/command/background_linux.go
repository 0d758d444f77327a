package command

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// backgroundPriority is the nice value of work that others must not wait for.
const backgroundPriority = 10

// runInBackground lowers the CPU priority of this process. Linux has a priority for each thread: those that are there get it, and later ones inherit it.
func runInBackground() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("listing the threads of this process: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return fmt.Errorf("reading the number of a thread: %w", err)
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, backgroundPriority); err != nil {
			return fmt.Errorf("lowering the priority of a thread: %w", err)
		}
	}
	return nil
}
