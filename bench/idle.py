"""What a durable session costs in memory while nothing happens: at a node that is alone, at one whose sessions have copies, and at one with the copies."""

import mqtt

EXPIRY = 3_600
AT_ONCE = 200


def resident_bytes(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024


def begin(port, numbers):
    """Sessions with a subscription each, all to one filter: routes are to cost nothing. Their clients are away."""
    for first in range(0, len(numbers), AT_ONCE):
        clients = []
        for number in numbers[first:first + AT_ONCE]:
            clients.append(mqtt.Connection(port))
            clients[-1].send(mqtt.connect(f"idle{number:06}", expiry=EXPIRY) + mqtt.subscribe("idle", 1))
        for client in clients:
            client.expect(mqtt.SUBACK)
            client.socket.close()


def measure(port, processes, sessions):
    """Bytes for each session at each of these processes; all begin at the first one. A tenth is begun before it is measured: what a server needs once does not count."""
    begin(port, range(sessions, sessions + sessions // 10))
    before = [resident_bytes(process) for process in processes]
    begin(port, range(sessions))
    return [(resident_bytes(process) - bytes_before) / sessions for process, bytes_before in zip(processes, before)]
