package network

import (
	"context"

	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

// WaitInside returns when every address answers in the network namespace of a process. A connection belongs to the
// namespace of the thread that opens it, so the question is asked by a program that is in there as a whole: one thread
// of this one would not do, the HTTP client uses others.
func WaitInside(ctx context.Context, pid int, addresses []string) error {
	return runInside(ctx, pid, append([]string{"wait-reachable"}, addresses...))
}

// WaitAll returns when every address answers.
func WaitAll(ctx context.Context, addresses []string) error {
	for _, address := range addresses {
		if err := supervisor.WaitReachable(ctx, address); err != nil {
			return err
		}
	}
	return nil
}
