#!/bin/sh
# Says when this pod's node is as good as it was before it was restarted, which is when the next one may be stopped.
#
# Kubernetes goes on with the next pod of an update, and lets the next one be evicted, when this one is ready. A node answers clients
# before the copies of sessions are where they belong, so its pod has one more container, which is ready when this script has
# made the file OPEN. It stays open until the node starts anew: later troubles of other nodes take no clients away from this one.
#
# OWN: admin pages of this pod's node. NODES: those of all nodes, this one's among them. TOKEN_FILE: a token of the scope read.
# CA_FILE: the authority of their certificates. SILENCE_MAX: seconds after which nodes that do not answer are not waited for.
# COPIES_MAX: seconds after which copies are not waited for. EVERY: seconds between looks.
set -u

page() { # URL
    if [ -n "${TOKEN_FILE:-}" ]; then
        printf 'Authorization: Bearer %s\n' "$(cat "$TOKEN_FILE")"
    fi | curl --silent --fail --max-time 5 ${CA_FILE:+--cacert "$CA_FILE"} --header @- "$1/metrics"
}

figure() { # NAME, of the page on stdin
    sed -n "s/^$1 \([0-9]*\).*/\1/p"
}

# What is missing for the gate to open, a line for each node; nothing if nothing is.
missing() {
    for node in $NODES; do
        if ! figures=$(page "$node"); then
            echo "silent $node"
            continue
        fi
        unmerged=$(echo "$figures" | figure statehold_unmerged_slots)
        if [ "$unmerged" != 0 ]; then
            echo "copies $node: ${unmerged:-?} slots are not merged"
        fi
    done
}

# Whether what is missing is waited for still, after so many seconds.
waits() { # SECONDS MISSING
    if [ "$1" -lt "$SILENCE_MAX" ] && [ -n "$2" ]; then
        return 0
    fi
    [ "$1" -lt "$COPIES_MAX" ] && echo "$2" | grep -q '^copies'
}

trap 'exit 0' TERM
started=
while :; do
    if figures=$(page "$OWN"); then
        start=$(echo "$figures" | figure statehold_start_time_seconds)
        if [ "$start" != "$started" ]; then
            rm -f "$OPEN"
            started=$start
            since=$(date +%s)
            whole=0
            said=
        fi
        if [ ! -e "$OPEN" ]; then
            lack=$(missing)
            if waits "$(($(date +%s) - since))" "$lack"; then
                whole=0
                [ "$lack" = "$said" ] || echo "closed: $lack"
                said=$lack
            else
                # Three looks in a row: nodes that have just met do not know yet what each other lacks.
                whole=$((whole + 1))
                if [ "$whole" -ge 3 ]; then
                    echo "open${lack:+, and not waiting any more for: $lack}"
                    : > "$OPEN"
                fi
            fi
        fi
    fi
    sleep "$EVERY"
done
